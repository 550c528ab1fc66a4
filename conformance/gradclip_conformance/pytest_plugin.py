"""For pytest users: `pytest --pyargs gradclip_conformance --adapter torch`, one test a cell.

Loaded by every pytest of an environment that has this package, so it imports nothing of the suite until it is asked.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from .run.host_process import HostProcess
    from .run.plan import PlannedCell

__all__ = ["gradclip_cell", "pytest_addoption", "pytest_generate_tests"]

_CONNECTION: pytest.StashKey[Any] = pytest.StashKey()


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options of `gradclip check` that make sense here."""
    group = parser.getgroup("gradclip", "conformance of gradient clipping")
    group.addoption("--adapter", metavar="NAME", help="an adapter's name, a file, or module:function")
    group.addoption("--adapter-python", metavar="EXE", help="the Python that has the adapter's framework")
    group.addoption("--adapter-op", metavar="OP", help="for a plain function: the operation it performs")
    group.addoption("--adapter-timeout", metavar="S", type=float, default=30.0, help="seconds a case (default: 30)")


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """One test for each cell of the adapter."""
    if "gradclip_cell" not in metafunc.fixturenames:
        return
    target = metafunc.config.getoption("--adapter")
    if target is None:
        reason = "no adapter is named: give --adapter NAME"
        metafunc.parametrize("gradclip_cell", [pytest.param(None, marks=pytest.mark.skip(reason=reason))], ids=["none"])
        return
    from .cases.catalogue import all_cases
    from .run.plan import Selection, plan_cells

    connection = _connection(metafunc.config, target)
    planned = plan_cells(connection.description.subjects, all_cases(), Selection())
    ids = [f"{cell.subject.name}::{cell.case.id}" for cell in planned]
    metafunc.parametrize("gradclip_cell", [(connection, target, cell) for cell in planned], ids=ids)


@pytest.fixture
def gradclip_cell(request: pytest.FixtureRequest) -> Any:
    """The connection, the adapter's name and the planned cell of one test."""
    return request.param


def check_cell(connection: HostProcess, target: str, planned: PlannedCell, timeout: float) -> None:
    """Ask and judge one cell, as the outcome of a pytest test."""
    __tracebackhide__ = True
    from gradclip_reports.statuses import SPOILING

    from .known.claims import load_claims
    from .known.pins import load_deviations
    from .run.runner import run_cell

    cell = run_cell(connection, planned, timeout, load_claims(target), load_deviations(target))
    if cell.status in SPOILING:
        pytest.fail(f"{cell.status}: {cell.detail}\nexpected {cell.expected}\nobserved {cell.observed}", pytrace=False)
    if cell.status == "deviation":
        pytest.xfail(f"{cell.detail} ({cell.url})")
    if cell.status in ("unsupported", "unspecified"):
        pytest.skip(f"{cell.status}: {cell.detail}")


def _connection(config: pytest.Config, target: str) -> HostProcess:
    from gradclip_adapters import registry

    from .judge.model import StartError
    from .run.host_process import HostProcess, host_command

    if _CONNECTION not in config.stash:
        # Of these errors, raised while tests are collected, pytest shows the text alone; of any other, the traceback.
        operation = config.getoption("--adapter-op")
        if operation is None and registry.kind_of(target) == "function":
            msg = f"{target!r} is a plain function: say with --adapter-op which operation it performs"
            raise pytest.Collector.CollectError(msg)
        arguments = [target, *(["--op", operation] if operation else [])]
        try:
            connection = HostProcess([*host_command(config.getoption("--adapter-python")), *arguments])
        except StartError as error:
            msg = f"the adapter {target!r} does not start ({error.kind}): {error}"
            raise pytest.Collector.CollectError(msg) from error
        config.stash[_CONNECTION] = connection
        config.add_cleanup(connection.close)
    held: HostProcess = config.stash[_CONNECTION]
    return held
