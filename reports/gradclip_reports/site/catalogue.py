"""Describe what a site needs beside records: rules, causes, questions and tables of measurements.

These classes say which members the site reads. Other packages fulfil them with classes of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from ..versions import Chance, never

__all__ = ["Catalogue", "Cause", "Question", "Rule", "Source", "Words"]


class Source(Protocol):
    """A place in a document that states a rule."""

    @property
    def document(self) -> str:
        """The number of the document."""

    @property
    def where(self) -> str:
        """The place in the document."""

    @property
    def phrase(self) -> str:
        """The quoted words."""

    @property
    def gloss(self) -> str:
        """A translation. It is empty for English."""


class Rule(Protocol):
    """A rule that one operation must keep."""

    @property
    def id(self) -> str:
        """The full id, such as "norm.at-threshold"."""

    @property
    def level(self) -> str:
        """One of must, should, quality, unspecified."""

    @property
    def statement(self) -> str:
        """The rule in a sentence."""

    @property
    def formula(self) -> str:
        """LaTeX. It is empty if the sentence needs none."""

    @property
    def source(self) -> Sequence[Source]:
        """The places that state the rule."""

    @property
    def theme(self) -> str:
        """The chapter of the rule catalogue."""


class Cause(Protocol):
    """One way to differ from the rules."""

    @property
    def id(self) -> str:
        """The id that findings name."""

    @property
    def title(self) -> str:
        """The behaviour in plain words."""

    @property
    def question(self) -> str:
        """The question that the behaviour answers."""

    @property
    def severity(self) -> str:
        """The usual severity."""

    @property
    def why(self) -> str:
        """The reason why it matters."""


class Words(Protocol):
    """The words for cells that fulfil conditions. An empty condition holds for every cell."""

    @property
    def words(self) -> str:
        """The words, in which `{name}` stands for a parameter of the finding."""

    @property
    def right(self) -> bool | None:
        """Whether the cell agrees with its rule."""

    @property
    def cause(self) -> str:
        """The cause of the finding that explains the cell."""

    @property
    def behaviour(self) -> str:
        """The suite's word for the answer."""

    @property
    def rule(self) -> str:
        """The rule's name, without its operation."""

    @property
    def lacks(self) -> str:
        """The reason why the cell could not be asked."""

    @property
    def operation(self) -> str:
        """The operation."""


class Question(Protocol):
    """One row of the matrix."""

    @property
    def id(self) -> str:
        """The id, for links."""

    @property
    def short(self) -> str:
        """The head of the row."""

    @property
    def text(self) -> str:
        """The question in full."""

    @property
    def why(self) -> str:
        """The reason why a user asks."""

    @property
    def rules(self) -> Sequence[str]:
        """The rules whose cells answer, as `name` or `name/variant`."""

    @property
    def dtypes(self) -> Sequence[str]:
        """The dtypes whose cells answer. If there are none, all dtypes answer."""

    @property
    def causes(self) -> Sequence[str]:
        """The causes that answer."""

    @property
    def answers(self) -> Sequence[Words]:
        """The words in order. A cell gets the first ones whose conditions it fulfils."""

    @property
    def measure(self) -> str:
        """The table that answers instead of the record: "accuracy", "speed", "none", or empty."""

    @property
    def workload(self) -> str:
        """For "speed", the workload in the table."""

    @property
    def floor(self) -> str:
        """For "speed", the row that measures one pass over the memory."""

    @property
    def peers(self) -> Mapping[str, str]:
        """The name of each adapter in the table of speeds. It is empty for the reference."""


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
