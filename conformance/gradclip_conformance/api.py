"""Check a plain function on NumPy arrays, in a process of its own if that process can import it."""

from __future__ import annotations

import contextlib
import gc
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradclip_adapters.contract import DTYPES, OPERATIONS
from gradclip_adapters.mesh_function import MeshFunction, TorchFunction
from gradclip_adapters.plain import PlainFunction
from gradclip_adapters.registry import ARRAYS
from gradclip_reports.brief import draw_brief
from gradclip_reports.records import Run, make_footer
from gradclip_reports.statuses import SPOILING

from .cases.model import Case
from .causes.findings import list_asked_rules
from .causes.model import Evidence
from .judge.model import Connection
from .oracle.formula import Formula
from .run.host_process import CASE_SECONDS
from .run.in_process import InProcess
from .run.isolation import HOST_MARK, CannotIsolate, PlainOptions, connect_function, parse_size
from .run.plan import Selection, add_formula, plan_cells
from .run.runner import explain_findings, make_header, plan_rows, run_cells, start_and_list

__all__ = ["Results", "assert_conforms", "check_clipper"]

DEFAULT_DTYPES = ("float16", "float32", "float64")


class Results(list[dict[str, Any]]):
    """The cells of a check, one dict each. Printing them shows the report that `gradclip check` prints, and `note`."""

    #: The findings, worst first: one dict each, as in a record.
    findings: Sequence[dict[str, Any]] = ()
    #: The run, from which reports are drawn.
    run: Run | None = None

    #: Whether the function ran in its own process.
    isolated: bool = False
    #: The reason why it ran in this process, if it had to.
    note: str = ""

    def __str__(self) -> str:
        """Return the report that `gradclip check` prints, and the note if there is one."""
        text = "no case was run" if self.run is None else draw_brief([self.run], hints=False).rstrip()
        return f"{text}\n{self.note}" if self.note else text


def check_clipper(  # noqa: PLR0913 - each is an option of its own
    fn: Callable[..., Any],
    op: str,
    *,
    dtypes: Sequence[str] | None = None,
    in_place: bool | None = None,
    rule: str | None = None,
    memory: int | str | None = None,
    isolated: bool | None = None,
    timeout: float = CASE_SECONDS,
    formula: str | None = None,
    mesh: Mapping[str, int] | None = None,
    arrays: str = "numpy",
    partial: bool = False,
) -> Results:
    """Check a clip function against every case of its operation.

    The function runs in a process of its own if that process can import it by name. For that, the function must be
    defined at the top level of a module, or of a script that guards its actions by `if __name__ == "__main__":`. A
    hang, an exit or a crash then costs one cell. A lambda, a closure or a function of a notebook runs in this process,
    where nothing stops a hang.

    Parameters
    ----------
    fn : callable
        Called as `fn(grads, *, clip_norm, need_clip)`, by value as `fn(grads, *, min, max)`, unitwise as `fn(grads, *,
        clip_factor, parameters)`. `grads` is a list of NumPy arrays, with None for a parameter without a gradient. The
        first axis of each array counts the units of a unitwise clip, and the examples of a clip per example, which
        returns their sums. `need_clip` is a list of bool; if it has a default and nothing is excluded, it is left out.
        The function returns the list of clipped gradients, or `(list, total_norm)`. Its signature shows its abilities:
        if it lacks a parameter (`need_clip`, `norm_type`, `error_if_nonfinite`), the cases that need it are
        `unsupported`.
    op : str
        The operation that the function performs, such as "clip_by_global_norm". `gradclip check --help` lists all.
    dtypes : sequence of str, optional
        The dtypes of the gradients; float16, float32 and float64 by default.
    in_place : bool, optional
        True: the results must be written into the arrays that are passed. False: these arrays must stay as they are.
        None: an array may change only if it is itself the result.
    rule : str, optional
        A pattern of rules or cases to check, such as `"*.excluded-*"`; `*` stands for any text.
    memory : int or str, optional
        The memory that the process of the function may allocate, such as `"4G"`; on Linux only.
    isolated : bool, optional
        True: the function must run in a process of its own. False: it runs in this process, and sees changes that were
        made to its module after the import. None: it runs in a process of its own if that process can import it.
    timeout : float, optional
        The seconds that a call may take; 30 by default, `inf` for no limit. A function in this process has no limit.
        After several hangs in a row, the function is not called again, and the detail of each remaining cell says so.
    formula : str, optional
        The formula that the function is meant to have, such as `"coefficient:1e-6"` for `min(1, c / (n + 1e-6))`. An
        answer that it explains is `documented` and not a failure.
    mesh : mapping of str to int, optional
        The size of each axis of a mesh of at most 8 ranks, such as `{"replica": 2, "shard": 2}`. The function is then
        called on each rank, as `fn(grads, *, clip_norm, placements, mesh)`; see `gradclip_adapters.mesh_function`.
        Along an axis with a name such as "replica" or "data", each gradient is replicated.
    arrays : {"numpy", "torch"}, optional
        With a mesh, "torch" runs each rank in a process of its own with real `torch.distributed`. The function is then
        called as `fn(parameters, *, clip_norm)`; see `gradclip_adapters.mesh_function`.
    partial : bool, optional
        With a mesh, True says that the function takes gradients that are not yet summed over an axis.

    Returns
    -------
    Results
        A list of dicts, one for each cell: `rule`, `case`, `dtype`, `level`, `status`, `ulp`, `detail`, `expected`,
        `observed` and more, as in a record. The statuses "fail", "crash", "timeout" and "error" show problems. The
        attribute `findings` holds the causes, worst first: `cause`, `title`, `severity`, `parameters`, `cells`,
        `rules`, `example` and more. The attribute `isolated` tells whether the function ran in a process of its own,
        and `note` why it did not.

    Raises
    ------
    ValueError
        If `op`, `dtypes`, `memory`, `timeout`, `formula`, `mesh`, `arrays` or `partial` is invalid, or if the function
        needs its own process and cannot be imported.
    RuntimeError
        If the module of the function calls `check_clipper` while it is being imported.
    TypeError
        If `fn` cannot be called in this way.

    Examples
    --------
    >>> import numpy as np
    >>> def clip(grads, *, min, max):
    ...     return [None if g is None else np.clip(g, min, max) for g in grads]
    >>> results = check_clipper(clip, op="clip_by_value", dtypes=["float32"])
    >>> sorted({result["status"] for result in results})
    ['pass', 'unspecified', 'unsupported']
    """
    if op not in OPERATIONS:
        msg = f"Unknown `op` {op!r}; choose one of {', '.join(OPERATIONS)}."
        raise ValueError(msg)
    chosen = tuple(dtypes) if dtypes is not None else DEFAULT_DTYPES
    if unknown := sorted(set(chosen) - set(DTYPES)):
        msg = f"Unknown dtype {', '.join(unknown)}; choose among {', '.join(DTYPES)}."
        raise ValueError(msg)
    if not timeout > 0:
        msg = f"`timeout` is a number of seconds above 0; got {timeout!r}."
        raise ValueError(msg)
    own = None if formula is None else Formula.parse(formula)
    if HOST_MARK in os.environ:
        msg = (
            "The module calls `check_clipper` while the process of another check imports it. "
            "Put the call under `if __name__ == '__main__':`."
        )
        raise RuntimeError(msg)
    # Before any process starts, this line refuses a function whose signature does not fit the operation.
    adapter = _make_adapter(fn, op, chosen, in_place, mesh, arrays, partial=partial)
    name = adapter.subjects()[0].name
    size = None if memory is None else parse_size(memory)
    options = PlainOptions(op, chosen, in_place, name, size, mesh, arrays, partial)
    (connection, note), cases = start_and_list(lambda: _connect(fn, adapter, options, isolated, timeout))
    try:
        run = _ask_all(connection, cases, chosen, rule, timeout, own)
    finally:
        connection.close()
    results = Results(cell.to_json() for cell in run.cells)
    results.run, results.findings = run, [finding.to_json() for finding in run.findings]
    results.isolated, results.note = not isinstance(connection, InProcess), note
    return results


def _make_adapter(
    fn: Callable[..., Any],
    op: str,
    dtypes: Sequence[str],
    in_place: bool | None,
    mesh: Mapping[str, int] | None,
    arrays: str,
    *,
    partial: bool,
) -> PlainFunction:
    if arrays not in ARRAYS:
        msg = f"Unknown `arrays` {arrays!r}; choose one of {', '.join(ARRAYS)}."
        raise ValueError(msg)
    if mesh is None:
        if arrays != "numpy":
            msg = f"`arrays={arrays!r}` needs a mesh, such as `mesh={{'shard': 2}}`."
            raise ValueError(msg)
        if partial:
            msg = "`partial=True` needs a mesh, such as `mesh={'shard': 2}`."
            raise ValueError(msg)
        return PlainFunction(fn, op, dtypes=dtypes, in_place=in_place)
    if arrays == "numpy":
        return MeshFunction(fn, op, mesh, dtypes=dtypes, in_place=in_place, partial=partial)
    try:
        return TorchFunction(fn, op, mesh, dtypes=dtypes, in_place=in_place, partial=partial)
    except ImportError as error:
        raise ValueError(str(error)) from error


def _connect(
    fn: Callable[..., Any], adapter: PlainFunction, options: PlainOptions, isolated: bool | None, timeout: float
) -> tuple[Connection, str]:
    """Return a connection to the function, and the reason if the function must run in this process."""
    needed = isolated or options.memory is not None or options.arrays != "numpy"
    if isolated is False:
        if options.arrays != "numpy":
            msg = f"`arrays={options.arrays!r}` runs the function in processes; leave out `isolated=False`."
            raise ValueError(msg)
        if options.memory is not None:
            msg = "`memory` limits the function's own process; leave out `isolated=False`."
            raise ValueError(msg)
        return InProcess(adapter), ""
    try:
        return connect_function(fn, options, timeout), ""
    except CannotIsolate as error:
        if needed:
            msg = f"The function cannot run in a process of its own, because {error}"
            raise ValueError(msg) from error
        note = f"The function ran in this process, where nothing stops a hang or a crash. The reason: {error}"
        return InProcess(adapter), note


def assert_conforms(fn: Callable[..., Any], op: str, **options: Any) -> None:
    """Check a clip function as :func:`check_clipper` does, with the same options, and raise if it does not conform.

    Parameters
    ----------
    fn : callable
        The function to check, on NumPy arrays.
    op : str
        The operation, as for :func:`check_clipper`.
    **options
        The options of :func:`check_clipper`.

    Raises
    ------
    AssertionError
        If something is not as expected; the text is the report that `gradclip check` prints.
    """
    results = check_clipper(fn, op, **options)
    if results.run is None or not results.run.is_judged or any(cell["status"] in SPOILING for cell in results):
        raise AssertionError(str(results))


@contextlib.contextmanager
def _collect_rarely() -> Iterator[None]:
    """Let the garbage collector run rarely. A full run visits all written cases, and takes as long as ten calls."""
    before = gc.get_threshold()
    gc.set_threshold(50_000, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)


def _ask_all(
    connection: Connection,
    cases: Sequence[Case],
    dtypes: Sequence[str],
    rule: str | None,
    timeout: float,
    formula: Formula | None,
) -> Run:
    selection = Selection(rules=(rule,) if rule else ())
    evidence: list[Evidence] = []
    entry_points = add_formula(connection.description.subjects, formula)
    # The suite computes with NumPy's default error handling. If the function runs in this process, it keeps the
    # caller's error handling.
    with np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"), _collect_rarely():
        planned = [*plan_cells(entry_points, cases, selection), *plan_rows(entry_points, selection)]
        asked = [cell for cell in planned if set(cell.case.dtype.split("+")) <= set(dtypes)]
        cells = list(run_cells(connection, asked, timeout, evidence=evidence))
        findings = explain_findings(evidence, list_asked_rules(cells), (), connection, timeout)
    header = make_header("check_clipper", replace(connection.description, subjects=tuple(entry_points)))
    return Run(header, tuple(cells), make_footer(cells), tuple(findings))
