"""Door 3: check a plain function on NumPy arrays, in a process of its own where it can be imported there."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradclip_adapters.contract import DTYPES, OPERATIONS
from gradclip_adapters.plain import PlainFunction

from .cases.catalogue import all_cases
from .judge.answers import Connection
from .run.host_process import CASE_SECONDS
from .run.in_process import InProcess
from .run.isolation import HOST_MARK, CannotIsolate, PlainOptions, connect_function, parse_size
from .run.plan import Selection, plan_cells
from .run.runner import run_cell

__all__ = ["Results", "check_clipper"]

DEFAULT_DTYPES = ("float16", "float32", "float64")


class Results(list[dict[str, Any]]):
    """The cells of a check, each a dict; printed, it says how many have each status, and where the function ran."""

    #: Whether the function ran in a process of its own.
    isolated: bool = False
    #: Why it did not, if it could not: a hang or an exit of it is then one of this process.
    note: str = ""

    def __str__(self) -> str:
        """Return the counts of the statuses, and the note if there is one."""
        counts = Counter(cell["status"] for cell in self)
        text = f"{len(self)} cells: " + ", ".join(f"{count} {status}" for status, count in counts.most_common())
        return f"{text}\n{self.note}" if self.note else text


def check_clipper(
    fn: Callable[..., Any],
    op: str,
    *,
    dtypes: Sequence[str] | None = None,
    in_place: bool | None = None,
    rule: str | None = None,
    memory: int | str | None = None,
    isolated: bool | None = None,
) -> Results:
    """Check a clip function against every case of its operation.

    The function runs in a process of its own where that process can import it by name: it is defined at the top of a
    module, or of a script that guards what it does by `if __name__ == "__main__":`. A hang, an exit or a crash then
    costs one cell. A lambda, a closure or a function of a notebook runs in this process, where nothing stops a hang.

    Parameters
    ----------
    fn
        Called as `fn(grads, *, clip_norm, need_clip)`, or `fn(grads, *, min, max)` by value, where `grads` is a list
        of NumPy arrays, or None for a parameter without a gradient, and `need_clip` a list of bool, which is left out
        where it has a default and nothing is excluded. It returns the list of clipped gradients, or
        `(list, total_norm)`. Abilities are read off its signature: a parameter that it
        does not take (`need_clip`, `norm_type`, `error_if_nonfinite`) makes that ability `unsupported`.
    op
        "clip_by_value", "clip_by_norm" or "clip_by_global_norm".
    dtypes
        What to call it with; float16, float32 and float64 unless narrowed.
    in_place
        True: its results must stand in the arrays it was given. False: it must leave them alone. None: recorded only.
    rule
        A shell pattern to narrow the rules or cases, such as `"*.excluded-*"`.

    memory
        How much memory the process of the function may allocate, such as `"4G"`; on Linux only.
    isolated
        True: the function must run in a process of its own. False: it runs in this one, with what was changed in its
        module since the import. None: in a process of its own if it can be imported there.

    Returns
    -------
    Results
        A list of dicts, one a cell: `rule`, `case`, `dtype`, `level`, `status`, `ulp`, `detail`, `expected`,
        `observed` and more, as in a record. A status of "fail", "crash", "timeout" or "error" is what to look for.
        `isolated` tells whether the function ran in a process of its own, and `note` why it did not.

    Raises
    ------
    ValueError
        When `op`, a dtype or `memory` is none, or a process of its own is needed and the function cannot be imported.
    RuntimeError
        When the module of a function under test calls this while it is imported.
    TypeError
        When `fn` cannot be called in this way.

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
    if HOST_MARK in os.environ:
        msg = "This module is being imported by a check of it; put its own checks under `if __name__ == '__main__':`."
        raise RuntimeError(msg)
    # Whether the function can be called as its operation needs is seen here, before any process starts.
    adapter = PlainFunction(fn, op, dtypes=chosen, in_place=in_place)
    name = adapter.subjects()[0].name
    options = PlainOptions(op, chosen, in_place, name, None if memory is None else parse_size(memory))
    connection, note = _connect(fn, adapter, options, isolated)
    try:
        results = Results(_ask_all(connection, chosen, rule))
    finally:
        connection.close()
    results.isolated, results.note = not isinstance(connection, InProcess), note
    return results


def _connect(
    fn: Callable[..., Any], adapter: PlainFunction, options: PlainOptions, isolated: bool | None
) -> tuple[Connection, str]:
    """Return where the function runs, and why it is this process if that was not asked for."""
    needed = isolated or options.memory is not None
    if isolated is False:
        if options.memory is not None:
            msg = "`memory` limits a process of the function's own; leave out `isolated=False`."
            raise ValueError(msg)
        return InProcess(adapter), ""
    try:
        return connect_function(fn, options), ""
    except CannotIsolate as error:
        if needed:
            msg = f"The function cannot run in a process of its own, because {error}"
            raise ValueError(msg) from error
        note = f"The function ran in this process, where a hang or an exit ends the check, because {error}"
        return InProcess(adapter), note


def _ask_all(connection: Connection, dtypes: Sequence[str], rule: str | None) -> list[dict[str, Any]]:
    selection = Selection(rules=(rule,) if rule else ())
    # NumPy's defaults: what the caller has set is for his function, which a connection in this process calls under it.
    with np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"):
        planned = plan_cells(connection.description.subjects, all_cases(), selection)
        asked = [cell for cell in planned if set(cell.case.dtype.split("+")) <= set(dtypes)]
        return [run_cell(connection, cell, CASE_SECONDS).to_json() for cell in asked]
