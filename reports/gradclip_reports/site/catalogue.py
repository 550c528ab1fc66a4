"""Hold what a site needs beside records: rules, causes, questions, measurements, and the words of its pages."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gradclip_adapters.operations import OPERATIONS
from gradclip_spec.rules import Rule
from gradclip_spec.rules.causes import Cause
from gradclip_spec.rules.questions import Question

from ..versions import Chance, never

#: The operations with a page of the matrix. Their order is that in which an answer is looked for.
_IN_MATRIX = [operation for operation in reversed(OPERATIONS.values()) if operation.matrix_page]

#: The labels of these operations. The empty one stands for the first that can answer a question.
OPERATION_LABELS = {
    "": "global norm if offered",
    **{operation.function: operation.label for operation in _IN_MATRIX},
}
#: The labels of the operations without a page of the matrix.
OTHER_LABELS = {name: operation.label for name, operation in OPERATIONS.items() if not operation.matrix_page}
#: The pages of the matrix, by operation.
MATRIX_PAGES = {"": "index", **{operation.function: operation.matrix_page for operation in _IN_MATRIX}}
#: The levels of rules.
LEVELS = {
    "must": "The documents say it",
    "should": "The documents do not say it, but a user can expect it",
    "quality": "About accuracy",
    "unspecified": "Recorded, never judged",
}
#: The classes of verdicts on rules, worst first.
VERDICTS = ("broken", "documented", "right", "unknown")
#: The standings of findings.
STANDINGS_OF_FINDINGS = {
    "new": "new: nothing documents it, and it is not known",
    "known": "known: recorded with its reason",
    "documented": "documented by the framework",
    "declared": "declared by the adapter",
    "poor": "poor, as the dtype's arithmetic explains",
}


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
