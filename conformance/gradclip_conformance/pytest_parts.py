"""Check the parts of a run as tests of pytest: one test for each possible finding, or one for each rule."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from filelock import FileLock

from gradclip_adapters.operations import OPERATIONS, PREFIXES
from gradclip_reports.brief import draw_finding
from gradclip_reports.failures import group_failures, leave_out_findings
from gradclip_reports.records import Cell, Run, read_runs, write_run
from gradclip_reports.statuses import SPOILING, UNJUDGED, Status
from gradclip_reports.values import escape_text, format_count
from gradclip_spec import rules
from gradclip_spec.rules.causes import load_causes

from .causes.findings import find_origin
from .run.record_file import replace_file

#: The id of the test for everything that belongs to no other test: answers that nothing explains, faults of the suite,
#: an empty run.
ELSE = "anything-else"

#: A failing test of a rule shows this many findings in full, and one line for each of the others.
SHOWN = 2

#: The runs that this process has made or read.
_RUNS: pytest.StashKey[dict[str, Run | str]] = pytest.StashKey()

#: For each check that did not run, the test that shows the error.
_SHOWN_BY: pytest.StashKey[dict[str, str]] = pytest.StashKey()


@dataclass(frozen=True)
class Part:
    """One finding or one rule of a run. The run is made when the first of its parts is checked."""

    key: str
    per: str
    name: str
    make: Callable[[], Run]
    #: The names of all parts of the run but ELSE.
    named: tuple[str, ...]

    def check(self, request: pytest.FixtureRequest) -> None:
        """Pass, fail or skip the test."""
        __tracebackhide__ = True
        run = _find_run(request, self.key, self.make)
        if isinstance(run, str):
            _report_error(request, self, run)
        elif self.name == ELSE:
            _check_rest(run, self)
        elif self.per == "rule":
            _check_rule(run, self.name)
        else:
            _check_finding(run, self.name)


def list_parts(key: str, per: str, make: Callable[[], Run], operations: Collection[str]) -> list[Part]:
    """Return the parts of a run: the ids of findings or of rules, and the rest."""
    chosen = [rule for rule in rules.load() if PREFIXES[rule.operation].function in operations]
    if per == "rule":
        names = [rule.id for rule in chosen]
    else:
        names = _list_origins(
            {rule.theme for rule in chosen}, by_value=not all(OPERATIONS[name].is_by_norm for name in operations)
        )
    return [Part(key, per, name, make, tuple(names)) for name in (*names, ELSE)]


def _list_origins(themes: Collection[str], *, by_value: bool) -> list[str]:
    """Return the ids of the findings that rules of these themes can have. `by_value` adds clips by value."""
    causes = [cause for cause in load_causes().values() if not set(cause.themes).isdisjoint(themes)]
    names = dict.fromkeys(find_origin(cause.id) for cause in causes)
    return [name for name in names if by_value or not name.startswith("value-")]


def _find_run(request: pytest.FixtureRequest, key: str, make: Callable[[], Run]) -> Run | str:
    """Return the run, or why there is none."""
    held = request.config.stash.setdefault(_RUNS, {})
    if key not in held:
        try:
            held[key] = _share(request, key, make) if hasattr(request.config, "workerinput") else make()
        except Exception as error:  # noqa: BLE001 - one test shows the error, and none runs the check again
            held[key] = f"The check did not run: {type(error).__name__}: {error}"
    return held[key]


def _report_error(request: pytest.FixtureRequest, part: Part, error: str) -> None:
    """Fail the first test of a check that did not run, and skip the others, because they would show the same error."""
    __tracebackhide__ = True
    shown_by = request.config.stash.setdefault(_SHOWN_BY, {}).setdefault(part.key, request.node.nodeid)
    if shown_by == request.node.nodeid:
        pytest.fail(escape_text(error), pytrace=False)
    pytest.skip(f"the check did not run, and {shown_by} shows the error")


def _share(request: pytest.FixtureRequest, key: str, make: Callable[[], Run]) -> Run:
    """Make a run in one process of pytest-xdist, and read its record in the others."""
    folder = Path(request.getfixturevalue("tmp_path_factory").getbasetemp()).parent
    path = folder / f"gradclip-{hashlib.sha256(key.encode()).hexdigest()[:16]}.jsonl"
    with FileLock(path.with_suffix(".lock")):
        if path.exists():
            return read_runs(path)[0]
        run = make()
        with replace_file(path) as stream:
            write_run(stream, run)
        return run


def _check_finding(run: Run, name: str) -> None:
    __tracebackhide__ = True
    found = [finding for finding in run.findings if find_origin(finding.cause) == name]
    _fail(draw_finding(finding, run) for finding in found if finding.spoils)
    if known := [finding for finding in found if Status.KNOWN in finding.statuses]:
        pytest.xfail(escape_text("; ".join(f"{one.title}: {one.reason or 'known'} ({one.url})" for one in known)))
    themes = {theme for one in load_causes().values() if find_origin(one.id) == name for theme in one.themes}
    if not found and themes.isdisjoint(cell.theme for cell in run.cells if cell.status not in UNJUDGED):
        pytest.skip("no tested rule could show this finding")


def _check_rule(run: Run, name: str) -> None:
    __tracebackhide__ = True
    cells = [cell for cell in run.cells if cell.rule == name]
    wrong = {cell.pair: cell for cell in cells if cell.status in SPOILING}
    found = [finding for finding in run.findings if finding.spoils and not wrong.keys().isdisjoint(finding.pairs)]
    texts = [[f"{len(wrong)} of {format_count(len(cells), 'cell')} of {name} are not as expected."]]
    texts += [draw_finding(finding, run) for finding in found[:SHOWN]]
    texts += [[f"also: {finding.title}" for finding in found[SHOWN:]]]
    explained = {pair for finding in found for pair in finding.pairs}
    texts += [_describe_cell(cell) for pair, cell in wrong.items() if pair not in explained][:SHOWN]
    _fail(texts if wrong else ())
    if known := next((cell for cell in cells if cell.status == Status.KNOWN), None):
        pytest.xfail(escape_text(f"{known.detail} ({known.url})"))
    if all(cell.status in UNJUDGED for cell in cells):
        pytest.skip(escape_text(f"{cells[0].status}: {cells[0].detail}") if cells else "no case of this rule was asked")


def _check_rest(run: Run, part: Part) -> None:
    """Fail if nothing was judged, or if a failure belongs to no other test."""
    __tracebackhide__ = True
    if not run.is_judged:
        pytest.fail("Nothing was judged: no case was both supported and specified.", pytrace=False)
    if part.per == "rule":
        return
    rest = [one for one in run.findings if one.spoils and find_origin(one.cause) not in part.named]
    texts = [draw_finding(one, run) for one in rest]
    _fail([*texts, *(_describe_cell(group.first) for group in group_failures([leave_out_findings(run)]))])


def _describe_cell(cell: Cell) -> list[str]:
    return [f"{cell.status}: {cell.case} of {cell.subject}", f"  {cell.detail}"]


def _fail(texts: Sequence[Sequence[str]] | Iterator[Sequence[str]]) -> None:
    __tracebackhide__ = True
    if blocks := ["\n".join(lines) for lines in texts if lines]:
        pytest.fail(escape_text("\n\n".join(blocks)), pytrace=False)
