"""Run the suite in pytest: `pytest --pyargs gradclip_conformance --gradclip-adapter torch` runs one test for each cell.

`--gradclip-per finding` makes one test for each finding instead, and `--gradclip-per rule` makes one for each rule.
In a test file, the decorator `@gradclip_conformance.conforms` makes the same tests for a clip function.

If this package is installed, every run of pytest loads the plugin. So the plugin imports the suite only when it is
used.
"""

from __future__ import annotations

from argparse import ArgumentTypeError
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from gradclip_reports.records import Cell, Run

    from .causes.model import Evidence
    from .decorator import Conformance
    from .judge.model import Connection
    from .pytest_parts import Part
    from .run.plan import PlannedCell
    from .run.runner import Knowledge

_CONNECTION: pytest.StashKey[Any] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options of `gradclip check` that make sense in pytest."""
    group = parser.getgroup("gradclip", "conformance of gradient clipping")
    group.addoption("--gradclip-adapter", metavar="NAME", help="an adapter's name, a file, or module:function")
    group.addoption("--gradclip-python", metavar="EXE", help="the Python that has the adapter's framework")
    group.addoption("--gradclip-op", metavar="OP", help="for a plain function: the operation it performs")
    group.addoption(
        "--gradclip-per",
        choices=["cell", "finding", "rule"],
        default="cell",
        help="what gets a test of its own (default: cell)",
    )
    group.addoption(
        "--gradclip-timeout",
        metavar="S",
        type=_parse_seconds,
        default=30.0,
        help="time limit of a case in seconds (default: 30)",
    )


def _parse_seconds(text: str) -> float:
    seconds = float(text)
    # With NaN, no comparison is true.
    if not seconds > 0:
        msg = f"{text} is not a number of seconds above 0"
        raise ArgumentTypeError(msg)
    return seconds


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test for each cell of the adapter, or for each part of a run."""
    if "gradclip_check" not in metafunc.fixturenames:
        return
    wanted = getattr(metafunc.function, "gradclip", None)
    if wanted is not None:
        checks: Sequence[Part | _CellCheck] = _list_parts_of_function(wanted)
    else:
        target = metafunc.config.getoption("--gradclip-adapter")
        if target is None:
            msg = "no adapter is named: give --gradclip-adapter NAME"
            raise pytest.Collector.CollectError(msg)
        per = metafunc.config.getoption("--gradclip-per")
        if per == "cell":
            checks = _list_cells(metafunc.config, target)
        else:
            checks = _list_parts_of_adapter(metafunc.config, target, per)
    metafunc.parametrize("gradclip_check", checks, ids=[check.name for check in checks], indirect=True)


def _list_cells(config: pytest.Config, target: str) -> list[_CellCheck]:
    from .cases.catalogue import list_all_cases
    from .run.plan import Selection, plan_cells
    from .run.runner import load_knowledge, plan_rows

    connection = _connect(config, target)
    about = connection.description
    try:
        knowledge = load_knowledge(target, about)
    except ValueError as error:
        raise pytest.Collector.CollectError(str(error)) from error
    planned = [*plan_cells(about.subjects, list_all_cases(), Selection()), *plan_rows(about.subjects, Selection())]
    shared = _Adapter(connection, target, knowledge, [])
    return [_CellCheck(shared, cell) for cell in planned]


def _list_parts_of_function(wanted: Conformance) -> list[Part]:
    from .api import check_clipper
    from .pytest_parts import list_parts

    def make() -> Run:
        run = check_clipper(wanted.get(), wanted.operation, **wanted.options).run
        assert run is not None, "a check has a run"
        return run

    # The key is the same in all processes of pytest-xdist.
    name = f"{wanted.get.__module__}.{wanted.get.__qualname__}"
    key = f"{name} {wanted.operation} {sorted(wanted.options.items())}"
    return list_parts(key, wanted.per, make, [wanted.operation])


def _list_parts_of_adapter(config: pytest.Config, target: str, per: str) -> list[Part]:
    from .pytest_parts import list_parts
    from .run.runner import RunRequest, run_adapter

    connection = _connect(config, target)
    timeout = config.getoption("--gradclip-timeout")

    def make() -> Run:
        # The run ends the connection.
        del config.stash[_CONNECTION]
        return run_adapter(RunRequest(target, lambda: connection, timeout=timeout))

    return list_parts(target, per, make, {entry_point.operation for entry_point in connection.description.subjects})


@dataclass(frozen=True)
class _Adapter:
    """What the tests of one adapter share. `evidence` holds the earlier wrong cells."""

    connection: Connection
    target: str
    knowledge: Knowledge
    evidence: list[Evidence]


@dataclass(frozen=True)
class _CellCheck:
    """One cell of an adapter."""

    adapter: _Adapter
    planned: PlannedCell

    @property
    def name(self) -> str:
        """Return the id of the test."""
        return f"{self.planned.entry_point.name}::{self.planned.case.id}"

    def check(self, request: pytest.FixtureRequest) -> None:
        """Pass, fail or skip the test."""
        __tracebackhide__ = True
        from gradclip_reports.statuses import SPOILING
        from gradclip_reports.values import escape_text

        from .run.runner import run_cell

        one, timeout = self.adapter, request.config.getoption("--gradclip-timeout")
        cell = run_cell(one.connection, self.planned, timeout, one.knowledge, one.evidence)
        if cell.status in SPOILING:
            pytest.fail(escape_text(_describe(cell, one, timeout)), pytrace=False)
        if cell.status == "known":
            pytest.xfail(escape_text(f"{cell.detail} ({cell.url})"))
        if cell.status in ("unsupported", "unspecified"):
            pytest.skip(escape_text(f"{cell.status}: {cell.detail}"))


@pytest.fixture
def gradclip_check(request: pytest.FixtureRequest) -> Callable[[], None]:
    """Return a function that checks one cell, finding or rule, and passes, fails or skips the test."""
    check: Part | _CellCheck = request.param
    return lambda: check.check(request)


#: The largest number of earlier wrong cells that are used to find the function's formula.
BEFORE = 60


def _describe(cell: Cell, adapter: _Adapter, timeout: float) -> str:
    """Return the finding that explains a cell, with the cell as its example."""
    from gradclip_reports.brief import draw_finding
    from gradclip_reports.records import Footer, Run

    from .run.runner import ask_again, explain_findings, make_header

    others = [one for one in adapter.evidence if one.cell.subject == cell.subject and one.cell is not cell]
    mine = [one for one in others if one.judged.answers][-BEFORE:]
    own = [
        one if one.judged.digest is None else replace(one, judged=ask_again(adapter.connection, timeout, one.judged))
        for one in adapter.evidence
        if one.cell is cell
    ]
    shown = f"{cell.status}: {cell.detail}\nexpected {cell.expected}\nobserved {cell.observed}"
    if not own:
        return shown
    header = make_header(adapter.target, adapter.connection.description)
    footer = Footer(planned=0, finished=0, counts={}, plan_sha256="")
    every = (single for one in explain_findings([*mine, *own]) for single in one.singles)
    finding = next(one for one in every if cell.case in one.cells.get(cell.subject, ()))
    return "\n".join([shown, "", *draw_finding(finding, Run(header, (), footer, (finding,)))])


def _connect(config: pytest.Config, target: str) -> Connection:
    from gradclip_adapters import registry
    from gradclip_reports.values import escape_text

    from .judge.model import StartError
    from .run.host_process import HostProcess, build_host_command
    from .run.isolation import PlainOptions, connect_named_function

    if _CONNECTION not in config.stash:
        # For a CollectError, pytest shows only the text. For any other error, it shows the traceback.
        operation = config.getoption("--gradclip-op")
        is_function = registry.find_kind(target) == "function"
        if operation is None and is_function:
            msg = f"{target!r} is a plain function: say with --gradclip-op which operation it performs"
            raise pytest.Collector.CollectError(msg)
        command = build_host_command(config.getoption("--gradclip-python"))
        timeout = config.getoption("--gradclip-timeout")
        try:
            connection: Connection = (
                connect_named_function(command, target, PlainOptions(operation), timeout)
                if is_function
                else HostProcess([*command, target, *(["--op", operation] if operation else [])], call_seconds=timeout)
            )
        except StartError as error:
            msg = f"the adapter {target!r} does not start ({error.kind}): {error}"
            if error.kind == "missing-framework":
                msg = f"{msg.rstrip('.')}. --gradclip-python EXE names a Python that has it."
            raise pytest.Collector.CollectError(escape_text(msg)) from error
        config.stash[_CONNECTION] = connection
        config.add_cleanup(connection.close)
    held: Connection = config.stash[_CONNECTION]
    return held
