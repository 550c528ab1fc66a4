"""Define the four kinds of line in a record, and the fingerprint of a plan."""

from __future__ import annotations

import hashlib
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Self

from .limits import NAME, TEXT, shorten
from .statuses import STATUSES, UNJUDGED

#: The version of the record format that this version writes and reads.
SCHEMA = 1


#: These members of header and cell are names. Names identify things, and head the columns of tables.
NAMES = ("adapter", "subject", "rule", "case", "theme", "dtype", "name", "version", "behaviour", "cause", "severity")


class RecordError(Exception):
    """A record is damaged, incomplete or contradicts itself. The text says where, what, and what to do."""


def make_strict(value: Any) -> Any:
    """Return the value in a form that JSON can hold and the reader accepts.

    Floats beyond JSON become "inf", "-inf" and "nan", lone surrogates become escapes, and long texts are cut.
    """
    if isinstance(value, str):
        # A framework's message may hold any characters, and UTF-8 refuses lone surrogates.
        return shorten(value[: 2 * TEXT].encode("utf-8", "backslashreplace").decode("utf-8"), TEXT)
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    if isinstance(value, Mapping):
        return {
            _shorten_name(make_strict(str(name))): _make_member_strict(str(name), item) for name, item in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [make_strict(item) for item in value]
    return value


def _make_member_strict(name: str, value: Any) -> Any:
    made = make_strict(value)
    return _shorten_name(made) if name in NAMES and isinstance(made, str) else made


def _shorten_name(text: str) -> str:
    return shorten(text, NAME)


class Line:
    """One line of a record: a dataclass whose fields are the members of a JSON object."""

    kind: ClassVar[str]

    def to_json(self) -> dict[str, Any]:
        """Return the line as a JSON object."""
        names = [item.name for item in fields(self)]  # type: ignore[arg-type]
        return {"record": self.kind, **{name: _make_member_strict(name, getattr(self, name)) for name in names}}

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Self:
        """Undo :meth:`to_json`. The members must satisfy the JSON Schema of the line."""
        return cls(**{name: value for name, value in members.items() if name != "record"})


@dataclass(frozen=True, kw_only=True)
class Header(Line):
    """The adapter and the framework that were checked, and the conditions of the run."""

    kind = "header"

    schema: int = SCHEMA
    #: `{"name", "version"}` of the suite.
    suite: Mapping[str, str]
    #: The name that `gradclip check` was given, such as "torch".
    adapter: str
    #: `{"name", "version"}` of the framework.
    framework: Mapping[str, str]
    #: At least "python" and "platform", and anything else that may change a result.
    environment: Mapping[str, str]
    #: The entry points, as in the host's message `about`.
    subjects: Sequence[Mapping[str, Any]]
    #: The arguments of `gradclip` that made the run.
    command: Sequence[str]
    #: The start time: ISO 8601, UTC, such as "2026-11-21T02:38:27Z".
    started: str
    seed: int | None = None

    @property
    def heading(self) -> str:
        """Return the framework and, if it has one, its version."""
        return f"{self.framework['name']} {self.framework['version']}".rstrip()

    @property
    def conditions(self) -> str:
        """Return the Python, unless the host runs without one, the platform, the device if not the CPU, and the day."""
        python, device = self.environment["python"], self.environment.get("device", "cpu")
        facts = [f"Python {python}"] if python else []
        facts.append(self.environment["platform"])
        facts += [] if device == "cpu" else [device]
        return ", ".join([*facts, self.started[:10]])


@dataclass(frozen=True, kw_only=True)
class Cell(Line):
    """The verdict on one case for one entry point."""

    kind = "cell"

    subject: str
    #: The entry point's operation, such as "clip_by_global_norm".
    operation: str
    #: The rule's full id, such as "global-norm.excluded-not-counted".
    rule: str
    #: `<rule>/<variant>/<dtype>`.
    case: str
    #: must, should, quality or unspecified.
    level: str
    dtype: str
    status: str
    #: The largest distance from the expected value in units in the last place of that value.
    ulp: float | None = None
    #: A complete sentence. It is empty only for a cell that passed.
    detail: str = ""
    expected: Any = None
    observed: Any = None
    #: The words of the framework's documentation that document a difference, and their place.
    quote: str | None = None
    url: str | None = None
    seconds: float = 0.0
    #: The theme of the rule, under whose heading reports show it.
    theme: str = ""
    #: The suite's short word for the answer.
    behaviour: str = "none"
    #: What an `unsupported` cell lacks, one of `statuses.LACKS`. Older records do not hold it.
    lacks: str | None = None
    #: The broken rule, if it is not the rule of the case.
    breaks: str | None = None
    #: The input in a short form, if the answer differs from the rule.
    input: Any = None

    @property
    def pair(self) -> tuple[str, str]:
        """Return the entry point and the case, which together name one cell of a run."""
        return self.subject, self.case

    def to_json(self) -> dict[str, Any]:
        """Return the line as a JSON object. A cell that breaks the rule of its case has no member `breaks`."""
        members = super().to_json()
        if members["breaks"] is None:
            del members["breaks"]
        return members

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Self:
        """Undo :meth:`to_json`. The members must satisfy the JSON Schema of the line."""
        ulp = members["ulp"]
        cell = cls.__new__(cls)
        # A record has ten thousand cells, and the constructor of a frozen class takes six times as long: it sets each
        # field alone. A field that the members lack has its default in the class.
        vars(cell).update(members, ulp=None if ulp is None else float(ulp))
        del vars(cell)["record"]
        return cell


@dataclass(frozen=True, kw_only=True)
class Finding(Line):
    """A cause that a framework shows, and the cells that it explains."""

    kind = "finding"

    #: The cause's id in the catalogue of the suite. It is "unexplained" if no cause explains the cells of one rule.
    cause: str
    #: The framework's behaviour, in plain words.
    title: str
    #: The question that the cause answers.
    question: str
    #: One of `statuses.SEVERITIES`.
    severity: str
    why: str
    parameters: Mapping[str, Any]
    #: The cases that the cause explains, by entry point.
    cells: Mapping[str, Sequence[str]]
    #: The number of cells of each rule.
    rules: Mapping[str, int]
    #: The number of cells with each status.
    statuses: Mapping[str, int]
    #: The smallest cell: `subject`, `case`, `input`, `expected`, `observed` and `detail`.
    example: Mapping[str, Any]
    #: The words that document the finding, or the reason why it is known, and their place.
    quote: str | None = None
    reason: str | None = None
    url: str | None = None
    #: The findings that this finding combines, worst first. Each cell is in one of them. A single finding has none.
    parts: Sequence[Finding] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the line as a JSON object. A single finding has no member `parts`."""
        members = super().to_json()
        del members["parts"]
        if not self.parts:
            return members
        parts = [part.to_json() for part in self.parts]
        return {**members, "parts": [{name: part[name] for name in part if name != "record"} for part in parts]}

    @classmethod
    def from_json(cls, members: Mapping[str, Any]) -> Self:
        """Undo :meth:`to_json`. The members must satisfy the JSON Schema of the line."""
        parts = tuple(map(cls.from_json, members.get("parts", ())))
        return super().from_json({**members, "parts": parts})

    @property
    def singles(self) -> Sequence[Finding]:
        """Return the findings that this finding combines, or the finding itself."""
        return self.parts or (self,)

    @property
    def pairs(self) -> list[tuple[str, str]]:
        """Return the entry point and the case of each cell."""
        return [(entry_point, case) for entry_point, cases in self.cells.items() for case in cases]

    @property
    def count(self) -> int:
        """Return the number of cells."""
        return sum(map(len, self.cells.values()))

    @property
    def spoils(self) -> bool:
        """Return whether one of its cells is not as expected."""
        return any(STATUSES[status].spoils for status in self.statuses)


@dataclass(frozen=True, kw_only=True)
class Footer(Line):
    """The number of planned and finished cells, and the statuses of the cells."""

    kind = "footer"

    planned: int
    finished: int
    #: The number of cells with each status. A status without cells is left out.
    counts: Mapping[str, int]
    plan_sha256: str
    incomplete: bool = False
    #: The planned cells that did not run, as `[subject, case]`.
    not_run: Sequence[Sequence[str]] = ()


@dataclass(frozen=True)
class Run:
    """One run of one adapter."""

    header: Header
    cells: tuple[Cell, ...] = field(repr=False)
    footer: Footer
    #: The findings, worst first.
    findings: tuple[Finding, ...] = ()

    @property
    def is_judged(self) -> bool:
        """Return whether any cell was judged right or wrong. A run without such a cell cannot be as expected."""
        return any(cell.status not in UNJUDGED for cell in self.cells)

    @property
    def is_as_expected(self) -> bool:
        """Return whether any cell was judged, all planned cells did run, and none of them fails the run."""
        return self.is_judged and not self.footer.not_run and not any(STATUSES[one.status].spoils for one in self.cells)

    @property
    def singles(self) -> tuple[Finding, ...]:
        """Return the findings without parts, and the parts of the others."""
        return tuple(single for finding in self.findings for single in finding.singles)

    def map_singles(self) -> dict[tuple[str, str], Finding]:
        """Return the finding that explains each cell, by the cell's pair. Of a combined finding, return the part."""
        return {pair: single for single in self.singles for pair in single.pairs}


def hash_plan(plan: Iterable[tuple[str, str]]) -> str:
    """Return the fingerprint of a plan: SHA-256 of its sorted lines `<subject> <case>`.

    Parameters
    ----------
    plan
        (entry point, case) for each cell that must run; the order does not matter.
    """
    digest = hashlib.sha256()
    # One line after another, because the text of a plan with 100,000 cells is large.
    for place, line in enumerate(sorted(f"{entry_point} {case}" for entry_point, case in plan)):
        digest.update(f"\n{line}".encode() if place else line.encode())
    return digest.hexdigest()


def make_footer(cells: Sequence[Cell]) -> Footer:
    """Return the footer of a whole run with these cells."""
    return Footer(
        planned=len(cells),
        finished=len(cells),
        counts=dict(sorted(Counter(cell.status for cell in cells).items())),
        plan_sha256=hash_plan(cell.pair for cell in cells),
    )
