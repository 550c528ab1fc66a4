"""Hold what a site needs beside records: rules, causes, questions and tables of measurements."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradclip_spec.rules import Rule
from gradclip_spec.rules.causes import Cause
from gradclip_spec.rules.questions import Question

from ..versions import Chance, never

__all__ = ["Catalogue"]


@dataclass(frozen=True)
class Catalogue:
    """Everything that a site shows beside the records themselves."""

    questions: Sequence[Question]
    rules: Sequence[Rule] = ()
    causes: Sequence[Cause] = ()
    #: The frameworks in the table that `gradclip accuracy` wrote, with their rows.
    accuracy: Sequence[Mapping[str, Any]] = ()
    #: The rows that `nox -s bench` wrote.
    speeds: Sequence[Mapping[str, Any]] = ()
    #: Tells which answers depend on chance, so that they do not date a finding.
    is_by_chance: Chance = never

    def list_errors(self, adapter: str, version: str) -> list[Mapping[str, Any]]:
        """Return the measured errors of a framework in one version, without the rows that hold no numbers."""
        return [
            row
            for framework in self.accuracy
            if (framework["adapter"], framework["version"]) == (adapter, version)
            for row in framework["rows"]
            if not row["problem"]
        ]
