"""Reading records, and refusing those that cannot be trusted."""

from __future__ import annotations

import functools
import importlib.resources
import json
import os
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from .lines import SCHEMA, Cell, Footer, Header, RecordError, Run, plan_sha256

if TYPE_CHECKING:
    import jsonschema

__all__ = ["read_runs"]

_AGAIN = "Make the record again with `gradclip check`"


def read_runs(path: str | os.PathLike[str], *, allow_incomplete: bool = False) -> list[Run]:
    """Read a record and check that it is whole.

    Parameters
    ----------
    path
        The file; it may hold several runs, one after another.
    allow_incomplete
        Whether a run that was broken off is returned; its footer names what did not run.

    Raises
    ------
    RecordError
        When the file cannot be read, is not JSON Lines, violates the schema, was written in a newer schema, holds no
        run, or when a run has no footer, a cell twice or not at all, or counts or a plan that its cells contradict.
    ModuleNotFoundError
        When the package jsonschema is not installed.
    """
    runs: list[Run] = []
    header, cells = None, list[Cell]()
    place = Place(path)
    for line in place.lines():
        match _parse(line, place):
            case Header() as found:
                if header is not None:
                    place.refuse("a new run begins, but the run before it has no footer")
                header, cells = found, []
            case Cell() as cell:
                if header is None:
                    place.refuse("a cell stands outside any run: its header is missing")
                cells.append(cell)
            case Footer() as footer:
                if header is None:
                    place.refuse("a footer stands outside any run: its header is missing")
                _check(header, cells, footer, place, allow_incomplete)
                runs.append(Run(header, tuple(cells), footer))
                header = None
    if header is not None:
        place.refuse(f"the run of {header.adapter!r} has no footer: it was cut short after {len(cells)} cells")
    if not runs:
        place.refuse("the file holds no run")
    return runs


class Place:
    """A line of a file, for messages."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.number = 0

    def lines(self) -> Iterator[str]:
        """The lines of the file, blank ones at its end left out; `number` follows them."""
        try:
            text = self.path.read_text(encoding="utf-8").rstrip()
        except (OSError, UnicodeDecodeError) as error:
            self.refuse(f"the file cannot be read: {error}", "Name a record that `gradclip check -o FILE` wrote")
        # Not str.splitlines: it also splits at characters that JSON strings may hold.
        for number, line in enumerate(text.split("\n") if text else [], start=1):
            self.number = number
            yield line

    def refuse(self, what: str, remedy: str = _AGAIN) -> NoReturn:
        """Raise the one message about this place."""
        where = f"{self.path}, line {self.number}" if self.number else str(self.path)
        message = f"{where}: {what}. {remedy}."
        raise RecordError(message)


def _parse(line: str, place: Place) -> Header | Cell | Footer:
    kinds: dict[str, type[Header | Cell | Footer]] = {"header": Header, "cell": Cell, "footer": Footer}
    try:
        members = json.loads(line, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        place.refuse(f"not JSON ({error}): the line is damaged, or the file was cut short here")
    kind = members.get("record") if isinstance(members, dict) else None
    if not isinstance(kind, str) or kind not in kinds:
        place.refuse(f'not a line of a record: "record" must be "header", "cell" or "footer", got {kind!r}')
    schema = members.get("schema")
    # Before the schema check, because a newer header may well hold members that this version does not know.
    if kind == "header" and isinstance(schema, int) and schema > SCHEMA:
        what = f"written in record schema {schema}, and this version reads up to {SCHEMA}"
        place.refuse(what, "Upgrade gradclip-spec")
    problems = [f"{error.json_path}: {_shortened(error.message)}" for error in _validator(kind).iter_errors(members)]
    if problems:
        place.refuse(f"the {kind} violates its schema: {'; '.join(problems)}")
    return kinds[kind].from_json(members)


def _no_constant(name: str) -> NoReturn:
    message = f"{name} is no JSON number"
    raise ValueError(message)


def _shortened(text: str, length: int = 200) -> str:
    return text if len(text) <= length else f"{text[: length // 2]} ... {text[-length // 2 :]}"


@functools.cache
def _validator(kind: str) -> jsonschema.Draft202012Validator:
    try:
        import jsonschema
    except ModuleNotFoundError as error:
        message = "Reading records needs the package jsonschema: install gradclip-spec[check]."
        raise ModuleNotFoundError(message, name="jsonschema") from error
    schema: Any = json.loads((importlib.resources.files(__package__) / "schemas" / f"{kind}.json").read_text("utf-8"))
    return jsonschema.Draft202012Validator(schema)


def _check(header: Header, cells: list[Cell], footer: Footer, place: Place, allow_incomplete: bool) -> None:
    """Refuse a run whose parts contradict each other."""
    for problem in _contradictions(header, cells, footer):
        place.refuse(f"the run of {header.adapter!r} {problem}")
    if footer.incomplete and not allow_incomplete:
        missing = footer.planned - footer.finished
        place.refuse(f"the run of {header.adapter!r} was broken off: {missing} of {footer.planned} cells did not run")


def _contradictions(header: Header, cells: list[Cell], footer: Footer) -> Iterator[str]:
    operations = {subject["name"]: subject["operation"] for subject in header.subjects}
    for cell in cells:
        if operations.get(cell.subject) != cell.operation:
            yield f"has a cell of {cell.subject!r} for {cell.operation}, which its header does not list"
    finished = Counter((cell.subject, cell.case) for cell in cells)
    for (subject, case), times in finished.items():
        if times > 1:
            yield f"has the cell {subject} {case} {times} times; it must stand there once"
    if len(cells) < footer.finished:
        yield f"lacks cells: its footer says {footer.finished} finished, and {len(cells)} are there"
    counts = dict(Counter(cell.status for cell in cells))
    if (len(cells), counts) != (footer.finished, footer.counts):
        found = f"{len(cells)} cells, {counts}"
        yield f"disagrees with its footer: found {found}; the footer says {footer.finished} cells, {footer.counts}"
    not_run = [(subject, case) for subject, case in footer.not_run]
    if footer.planned != footer.finished + len(not_run) or footer.incomplete != bool(not_run):
        yield (
            f"lacks cells: {footer.planned} were planned, {footer.finished} finished, "
            f"and {len(not_run)} are named as not run"
        )
    if plan_sha256([*finished, *not_run]) != footer.plan_sha256:
        yield "does not hold the cells that were planned: the fingerprint of the plan differs"
