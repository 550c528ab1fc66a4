"""Door 3: check a plain function on NumPy arrays, in this process."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradclip_adapters.contract import DTYPES, OPERATIONS
from gradclip_adapters.plain import PlainFunction

from .cases.catalogue import all_cases
from .run.in_process import InProcess
from .run.plan import Selection, plan_cells
from .run.runner import CASE_SECONDS, run_cell

__all__ = ["check_clipper"]

DEFAULT_DTYPES = ("float16", "float32", "float64")


def check_clipper(
    fn: Callable[..., Any],
    op: str,
    *,
    dtypes: Sequence[str] | None = None,
    in_place: bool | None = None,
    rule: str | None = None,
) -> list[dict[str, Any]]:
    """Check a clip function against every case of its operation.

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

    Returns
    -------
    list of dict
        One a cell: `rule`, `case`, `dtype`, `level`, `status`, `ulp`, `detail`, `expected`, `observed` and more, as in
        a record. A status of "fail", "crash" or "error" is what to look for.

    Raises
    ------
    ValueError
        When `op` or a dtype is unknown.
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
    connection = InProcess(PlainFunction(fn, op, dtypes=chosen, in_place=in_place))
    selection = Selection(rules=(rule,) if rule else ())
    # NumPy's defaults: what the caller has set is for his function, which the connection calls under it.
    with np.errstate(divide="warn", over="warn", under="ignore", invalid="warn"):
        planned = plan_cells(connection.description.subjects, all_cases(), selection)
        asked = [cell for cell in planned if set(cell.case.dtype.split("+")) <= set(chosen)]
        return [run_cell(connection, cell, CASE_SECONDS).to_json() for cell in asked]
