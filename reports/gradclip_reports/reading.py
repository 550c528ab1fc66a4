"""Read records, and refuse those that cannot be trusted."""

from __future__ import annotations

import gzip
import os
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from gradclip_adapters.operations import OPERATIONS

from .limits import FILE, OverLimit, check_size, parse_json, shorten
from .lines import SCHEMA, Cell, Finding, Footer, Header, RecordError, Run, hash_plan, make_footer
from .schema import find_violation
from .values import escape_text

_SCHEMAS = Path(__file__).parent / "schemas"
_AGAIN = "Make the record again with `gradclip check`"

#: The former names of statuses, in records that an older suite wrote, and the present ones.
_RENAMED = {"deviation": "known", "declared": "documented", "changed": "fail"}

#: The greatest length of a value in a message.
_LENGTH = 200

#: The greatest length of the name of a cell in a message.
_NAME = 1_000

#: The longest time that a cell may have taken: a century.
_SECONDS = 3.2e9


def read_runs(path: str | os.PathLike[str], *, allow_incomplete: bool = False) -> list[Run]:
    """Read a record and check that it is whole.

    Parameters
    ----------
    path
        The file, which may hold several runs, one after another. A file whose name ends in `.gz` is decompressed.
    allow_incomplete
        Whether to return an interrupted run, whose footer names the cells that did not run.

    Raises
    ------
    RecordError
        If the file cannot be read, is not JSON Lines, or exceeds a limit. If it violates the schema, was written in
        another schema, or holds no run. If a run has no footer, lacks a cell, or has a cell twice. If its counts or its
        plan disagree with its cells.
    ModuleNotFoundError
        If the package fastjsonschema is not installed.
    """
    runs: list[Run] = []
    header, cells, findings = None, list[Cell](), list[Finding]()
    place = Place(path)
    for line in place.read_lines():
        item = _parse(line, place)
        if isinstance(item, Header):
            if header is not None:
                place.refuse("a new run begins, but the run before it has no footer")
            header, cells, findings = item, [], []
        elif header is None:
            place.refuse(f"a {item.kind} is outside any run: its header is missing")
        elif isinstance(item, Cell):
            cells.append(item)
        elif isinstance(item, Finding):
            findings.append(item)
        else:
            run = Run(header, tuple(cells), item, tuple(findings))
            _check(run, place, allow_incomplete)
            runs.append(run)
            header = None
    if header is not None:
        place.refuse(f"the run of {header.adapter!r} has no footer: it was cut short after {len(cells)} cells")
    if not runs:
        place.refuse("the file holds no run")
    return runs


def read_partial(path: str | os.PathLike[str]) -> Run:
    """Read one run that was cut off, such as the journal `FILE.part`. The footer says that it is incomplete.

    The cells may be in any order. Of two cells of one name, the later one counts. The last line may be damaged.

    Raises
    ------
    RecordError
        If the file cannot be read, holds no header, or is damaged before its last line.
    """
    place = Place(path)
    lines = list(place.read_lines())
    header, cells = None, dict[tuple[str, str], Cell]()
    for place.number, line in enumerate(lines, start=1):
        try:
            item = _parse(line, place)
        except RecordError:
            if header is not None and place.number == len(lines):
                break
            raise
        if isinstance(item, Header):
            if header is not None:
                place.refuse("the file holds several runs, and only one can be read in part")
            header = item
        elif header is None:
            place.refuse("the header is missing")
        elif isinstance(item, Cell):
            cells[item.pair] = item
    if header is None:
        place.refuse("the file holds no header")
    run = Run(header, tuple(cells.values()), replace(make_footer([*cells.values()]), incomplete=True))
    _refuse(run, _find_unlisted(run), place)
    return run


class Place:
    """A line of a file, for messages."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.number = 0

    def read_lines(self) -> Iterator[str]:
        """Yield the lines of the file, without the blank lines at its end, and keep `number` up to date."""
        text = self._read().rstrip()
        start = 0
        # Yield lines one by one, because a list of them would hold the file a second time. Do not use str.splitlines,
        # which also splits at characters that JSON strings may hold.
        while start < len(text):
            end = text.find("\n", start)
            line = text[start : len(text) if end < 0 else end]
            start, self.number = start + len(line) + 1, self.number + 1
            yield line

    def _read(self) -> str:
        """Return the text of the file. If it is longer than the limit, stop reading there and refuse it."""
        try:
            # Do not trust the file size: it is 0 for a pipe or a device, and a compressed file grows.
            with gzip.open(self.path) if self.path.suffix == ".gz" else self.path.open("rb") as stream:
                content = stream.read(FILE + 1)
            check_size(content)
            return content.decode("utf-8")
        except OverLimit as error:
            self.refuse(str(error), "It is not a record that `gradclip check` wrote")
        except UnicodeDecodeError:
            self.refuse("the file cannot be read: it is not text", "Name a record that `gradclip check -o FILE` wrote")
        except (OSError, EOFError, zlib.error) as error:
            self.refuse(f"the file cannot be read: {error}", "Name a record that `gradclip check -o FILE` wrote")

    def refuse(self, what: str, remedy: str = _AGAIN) -> NoReturn:
        """Raise a RecordError that names the file and the line, and says what is wrong and how to mend it."""
        where = f"{self.path}, line {self.number}" if self.number else str(self.path)
        # A record may hold control characters, which would act on a terminal.
        message = escape_text(f"{where}: {what}. {remedy}.")
        raise RecordError(message)


_KINDS: Mapping[str, type[Header | Cell | Finding | Footer]] = {
    kind.kind: kind for kind in (Header, Cell, Finding, Footer)
}


def _parse(line: str, place: Place) -> Header | Cell | Finding | Footer:
    try:
        members = parse_json(line)
    except OverLimit as error:
        place.refuse(str(error), "It is not a record that `gradclip check` wrote")
    except (ValueError, RecursionError) as error:
        place.refuse(f"not JSON ({error}): the line is damaged, or the file was cut short here")
    kind = members.get("record") if isinstance(members, dict) else None
    if not isinstance(kind, str) or kind not in _KINDS:
        got = shorten(repr(kind), _LENGTH)
        place.refuse(f'not a line of a record: "record" must be "header", "cell", "finding" or "footer", got {got}')
    if kind == "header":
        _refuse_other_schema(members.get("schema"), place)
    _rename_statuses(members)
    violation = find_violation(members, _SCHEMAS / f"{kind}.json")
    problem = violation or next(_find_faults(kind, members), "")
    if problem:
        place.refuse(f"the {kind} violates its schema: {problem}")
    return _KINDS[kind].from_json(members)


def _rename_statuses(members: Any) -> None:
    """Replace the former names of statuses in a line, which may hold anything."""
    if not isinstance(members, dict):
        return
    if isinstance(status := members.get("status"), str):
        members["status"] = _rename(status)
    for name in ("counts", "statuses"):
        counts = members.get(name)
        if isinstance(counts, dict) and all(type(count) is int for count in counts.values()):
            renamed: Counter[str] = Counter()
            for former, count in counts.items():
                renamed[_rename(former)] += count
            members[name] = dict(renamed)
    if isinstance(parts := members.get("parts"), list):
        for part in parts:
            _rename_statuses(part)


def _rename(status: str) -> str:
    return _RENAMED.get(status, status)


def _refuse_other_schema(schema: Any, place: Place) -> None:
    """Refuse a record of another schema first, because its unknown members would give a misleading error."""
    if type(schema) is int and schema != SCHEMA:
        what = f"written in record schema {schema}, and this version reads schema {SCHEMA} only"
        place.refuse(what, "Upgrade gradclip-spec" if schema > SCHEMA else _AGAIN)


def _find_faults(kind: str, members: dict[str, Any]) -> Iterator[str]:
    """Yield faults that a JSON Schema cannot express: invalid times, numbers out of range, repeated entry points."""
    if kind == "cell" and not members["seconds"] <= _SECONDS:
        yield f"$.seconds: {members['seconds']} seconds are more than a century"
    if kind != "header":
        return
    try:
        datetime.fromisoformat(members["started"])
    except ValueError as error:
        yield f"$.started: {error}"
    for name, times in Counter(entry_point["name"] for entry_point in members["subjects"]).items():
        if times > 1:
            yield f"$.subjects: {name!r} occurs {times} times; each entry point must occur once"
    for entry_point in members["subjects"]:
        for norm_type in entry_point["norm_types"]:
            number = _parse_hex(norm_type)
            if number is None or not number > 0:
                yield f"$.subjects: {shorten(repr(norm_type), _LENGTH)} is not an order of a norm"
        for value in (entry_point["formula"] or {}).values():
            if isinstance(value, dict) and _parse_hex(value.get("hex")) is None:
                yield f"$.subjects: {shorten(repr(value), _LENGTH)} is not a number of a formula"


def _parse_hex(text: Any) -> float | None:
    """Return a hexadecimal float, including infinities and NaN, or None if it is not a float64."""
    try:
        return float.fromhex(text)
    except (ValueError, OverflowError, TypeError):
        return None


def _check(run: Run, place: Place, allow_incomplete: bool) -> None:
    header, footer = run.header, run.footer
    _refuse(run, (*_find_unlisted(run), *_find_contradictions(run.cells, footer), *_find_wrong_findings(run)), place)
    if footer.incomplete and not allow_incomplete:
        missing = footer.planned - footer.finished
        place.refuse(f"the run of {header.adapter!r} was broken off: {missing} of {footer.planned} cells did not run")


def _refuse(run: Run, problems: Iterable[str], place: Place) -> None:
    for problem in problems:
        place.refuse(f"the run of {run.header.adapter!r} {problem}")


def _find_unlisted(run: Run) -> Iterator[str]:
    """Yield an unknown operation, and a cell whose entry point the header does not list."""
    operations = {entry_point["name"]: entry_point["operation"] for entry_point in run.header.subjects}
    if unknown := sorted({*operations.values()} - OPERATIONS.keys()):
        yield f"is about the operations {', '.join(unknown)}, which this version does not know"
    for cell in run.cells:
        if operations.get(cell.subject) != cell.operation:
            yield f"has a cell of {cell.subject!r} for {cell.operation}, which its header does not list"
    for entry_point, case in run.footer.not_run:
        if entry_point not in operations:
            yield f"names the cell {shorten(case, _NAME)} of {entry_point!r} as not run, which its header does not list"


def _find_contradictions(cells: Sequence[Cell], footer: Footer) -> Iterator[str]:
    finished = Counter(cell.pair for cell in cells)
    for (entry_point, case), times in finished.items():
        if times > 1:
            yield f"has the cell {shorten(f'{entry_point} {case}', _NAME)} {times} times; each cell must occur once"
    if len(cells) < footer.finished:
        yield f"lacks cells: its footer says {footer.finished} finished, and {len(cells)} are there"
    counts = dict(Counter(cell.status for cell in cells))
    if (len(cells), counts) != (footer.finished, footer.counts):
        found = f"{len(cells)} cells, {counts}"
        yield f"disagrees with its footer: found {found}; the footer says {footer.finished} cells, {footer.counts}"
    not_run = [(entry_point, case) for entry_point, case in footer.not_run]
    if footer.planned != footer.finished + len(not_run) or footer.incomplete != bool(not_run):
        yield (
            f"lacks cells: {footer.planned} were planned, {footer.finished} finished, "
            f"and {len(not_run)} are named as not run"
        )
    if hash_plan([*finished, *not_run]) != footer.plan_sha256:
        yield "does not hold the cells that were planned: the fingerprint of the plan differs"


def _find_wrong_findings(run: Run) -> Iterator[str]:
    """Yield faults of findings: cells that the run does not have, or that another finding explains."""
    statuses = {cell.pair: cell.status for cell in run.cells}
    explained: set[tuple[str, str]] = set()
    for finding in run.findings:
        named = finding.pairs
        for pair in named:
            if pair not in statuses or pair in explained:
                what = "another finding explains already" if pair in explained else "the run does not have"
                yield f"has a finding {finding.cause!r} of the cell {shorten(' '.join(pair), _NAME)}, which {what}"
            explained.add(pair)
        counts = Counter(statuses.get(pair, "") for pair in named)
        if dict(counts) != dict(finding.statuses) or Counter(case.partition("/")[0] for _, case in named) != Counter(
            dict(finding.rules)
        ):
            yield f"has a finding {finding.cause!r} whose counts disagree with its cells"
        if finding.parts:
            yield from _find_wrong_parts(finding)


def _find_wrong_parts(finding: Finding) -> Iterator[str]:
    """Yield a fault if the parts of a finding do not hold each of its cells once."""
    cells = [pair for part in finding.parts for pair in part.pairs]
    rules = sum((Counter(part.rules) for part in finding.parts), Counter[str]())
    statuses = sum((Counter(part.statuses) for part in finding.parts), Counter[str]())
    if sorted(cells) != sorted(finding.pairs) or (rules, statuses) != (finding.rules, finding.statuses):
        yield f"has a finding {finding.cause!r} whose parts do not hold each of its cells once"
