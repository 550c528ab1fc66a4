"""List the mutation operators: what each changes, in which step, and for which gradients ("included", "excluded").

A change gets a memory that persists between calls, the value of the step, and details of it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from .facts import GLOBAL, NORMS, VALUES, Array, Work
from .functions import Edit, Operator
from .triggers import LENGTHS, Level, find_level

OTHER_DTYPES = {"float16": np.float32, "float32": np.float64, "float64": np.float32}


def _read_base(row: Array, grad: Array) -> Array:
    """Read the memory from the start of the gradient, as if it had no gaps."""
    if grad.flags.c_contiguous or grad.base is None:
        return row
    memory = np.asarray(grad.base).reshape(-1)
    return memory[: row.size] if memory.size >= row.size and memory.dtype == row.dtype else np.resize(memory, row.size)


def _list_sums() -> Iterator[Operator]:
    """Yield operators that measure other elements."""

    def make_one(name: str, edit: Edit, level: Level | None = None) -> Operator:
        return Operator(name, "values", edit, operations=NORMS, level=level)

    yield make_one("not-counted", lambda m, row, g: row[:0])
    yield make_one("counted-twice", lambda m, row, g: np.concatenate([row, row]))
    yield make_one("last-not-counted", lambda m, row, g: row[:-1])
    yield make_one("first-not-counted", lambda m, row, g: row[1:])
    yield make_one("last-counted-twice", lambda m, row, g: np.concatenate([row, row[-1:]]))
    yield make_one("every-other-counted", lambda m, row, g: row[::2])
    yield make_one("narrowed-before-counting", lambda m, row, g: _narrow(np.ascontiguousarray(row)))
    yield make_one("memory-counted", lambda m, row, g: _read_base(row, g))
    yield make_one("last-row-not-counted", lambda m, row, g: g[:-1].reshape(-1) if g.ndim > 1 else row)
    yield make_one("last-column-not-counted", lambda m, row, g: g[..., :-1].reshape(-1) if g.ndim > 1 else row)
    for length in LENGTHS:
        level = find_level(f"over-{length}")
        yield make_one(
            f"last-partial-{length}-not-counted", lambda m, row, g, n=length: row[: _find_tail(row, n)], level
        )
        yield make_one(f"only-first-{length}-counted", lambda m, row, g, n=length: row[:n], level)
    for length in (2, 4):
        yield make_one(f"last-partial-{length}-not-counted", lambda m, row, g, n=length: row[: _find_tail(row, n)])
    chunk = 65_536
    level = find_level(f"over-{chunk}")
    yield make_one(
        "last-of-each-chunk-not-counted", lambda m, row, g: np.delete(row, slice(chunk - 1, None, chunk)), level
    )
    yield make_one("second-chunk-counted-twice", lambda m, row, g: np.concatenate([row, row[chunk : 2 * chunk]]), level)


def _list_scalars() -> Iterator[Operator]:
    """Yield operators that change a norm, or a number that is computed with it."""

    def make_one(name: str, step: str, edit: Edit) -> Operator:
        return Operator(name, step, edit, operations=NORMS)

    yield make_one("previous-norm", "norm", lambda m, n, rows: m.get("norm", n))
    yield make_one("norm-of-one-gradient", "norm", lambda m, n, rows: _measure(rows[0]) if rows else n)
    yield make_one("norm-plus-epsilon", "norm", lambda m, n, rows: n * (1 + 2**-9))
    yield make_one("norm-in-three-digits", "norm", lambda m, n, rows: float(f"{n:.2e}"))
    yield make_one("norm-in-float16", "norm", lambda m, n, rows: float(np.float16(n)))
    yield make_one("norm-squared", "norm", lambda m, n, rows: n * n)
    yield make_one("norm-halved", "norm", lambda m, n, rows: n / 2)
    yield make_one("squares-in-the-dtype", "norm", lambda m, n, rows: _sum_in_dtype(n, rows))
    yield make_one("never-above", "above", lambda m, above, n, c: False)
    yield make_one("always-above", "above", lambda m, above, n, c: n > 0)
    yield make_one("above-by-a-hundredth", "above", lambda m, above, n, c: n > c * 1.01)
    yield make_one("below-by-a-hundredth", "above", lambda m, above, n, c: n > c * 0.99)
    yield make_one("compared-squared", "above", lambda m, above, n, c: n * n > c)
    yield make_one("compared-the-other-way", "above", lambda m, above, n, c: n < c)
    yield make_one("threshold-dropped", "coefficient", lambda m, q, c, n: 1 / n)
    yield make_one("quotient-turned-over", "coefficient", lambda m, q, c, n: n / c)
    yield make_one("coefficient-squared", "coefficient", lambda m, q, c, n: q * q)
    yield make_one("root-of-coefficient", "coefficient", lambda m, q, c, n: np.sqrt(q))
    yield make_one("coefficient-one", "coefficient", lambda m, q, c, n: 1 + 0 * q)
    yield make_one("coefficient-negative", "coefficient", lambda m, q, c, n: -q)
    yield make_one("coefficient-in-float16", "coefficient", lambda m, q, c, n: np.longdouble(np.float16(q)))
    yield make_one("previous-coefficient", "coefficient", lambda m, q, c, n: m.get("coefficient", q))
    yield make_one("coefficient-by-norm-plus-1e-6", "coefficient", lambda m, q, c, n: c / (n + np.longdouble(1e-6)))
    yield make_one("coefficient-by-sum", "coefficient", lambda m, q, c, n: c / (n + c))
    for name, edit in (
        ("norms-added", lambda m, n, rows: math.fsum(map(_measure, rows))),
        ("largest-norm-taken", lambda m, n, rows: max(map(_measure, rows), default=0.0)),
        ("last-norm-forgotten", lambda m, n, rows: math.hypot(*map(_measure, rows[:-1]))),
    ):
        yield Operator(name, "norm", edit, operations=GLOBAL)


def _measure(row: Array) -> float:
    return float(np.sqrt(np.sum(np.square(row.astype(np.longdouble)))))


def _sum_in_dtype(norm: float, rows: list[Array]) -> float:
    """Add squares in the dtype of the elements, so that they leave its range."""
    return math.sqrt(sum(float(np.sum(np.square(row))) for row in rows)) if rows else norm


def _find_tail(row: Array, length: int) -> int:
    """Return the place where the last partial chunk begins. The row's length if no partial chunk follows a full one."""
    return row.size - row.size % length if row.size > length else row.size


def _narrow(value: Array) -> Array:
    """Drop the last binary digits of each element (3 of 11 in float16, about half in others), and keep the dtype."""
    if value.dtype == np.float16:
        return (value.view(np.uint16) & np.uint16(0xFFF8)).view(np.float16)
    narrower = np.float16 if value.dtype == np.float32 else np.float32
    return value.astype(narrower).astype(value.dtype)


def _set(result: Array, place: Any, value: Any) -> Array:
    changed = np.array(result, copy=True)
    changed[place] = value
    return changed


def _set_flat(result: Array, place: slice, value: Any) -> Array:
    return _set(result.reshape(-1), place, value).reshape(result.shape)


def _keep_from(result: Array, given: Array, start: int) -> Array:
    return np.concatenate([result[:start], given[start:]])


def _list_results() -> Iterator[Operator]:
    """Yield operators that write wrong results."""

    def make_one(name: str, edit: Edit, level: Level | None = None) -> Operator:
        return Operator(name, "result", edit, level=level)

    yield make_one("result-is-input", lambda m, new, old: old.copy())
    yield make_one("last-not-written", lambda m, new, old: _keep_from(new, old, max(new.size - 1, 0)))
    yield make_one("first-not-written", lambda m, new, old: np.concatenate([old[:1], new[1:]]))
    yield make_one("zeroed", lambda m, new, old: np.zeros_like(new))
    yield make_one("last-zeroed", lambda m, new, old: _set(new, slice(-1, None), 0))
    yield make_one("rest-zeroed", lambda m, new, old: _set(new, slice(1, None), 0))
    yield make_one("moved-by-one", lambda m, new, old: np.roll(new, 1))
    yield make_one("backwards", lambda m, new, old: new[::-1].copy())
    yield make_one("magnitudes", lambda m, new, old: np.abs(new))
    yield make_one("last-sign-turned", lambda m, new, old: _set(new, slice(-1, None), -new[-1:]))
    yield make_one("doubled", lambda m, new, old: new * new.dtype.type(2))
    yield make_one("last-digit-lost", lambda m, new, old: _narrow(np.ascontiguousarray(new)))
    yield make_one("first-copied-to-last", lambda m, new, old: _set(new, slice(-1, None), new[:1]))
    yield make_one("last-nan", lambda m, new, old: _set(new, slice(-1, None), math.nan))
    for length in LENGTHS:
        level = find_level(f"over-{length}")
        yield make_one(
            f"last-partial-{length}-not-written",
            lambda m, new, old, n=length: _keep_from(new, old, _find_tail(new, n)),
            level,
        )
        yield make_one(f"after-{length}-zeroed", lambda m, new, old, n=length: _set(new, slice(n, None), 0), level)
        yield make_one(f"element-{length}-not-written", lambda m, new, old, n=length: _set(new, n, old[n]), level)
    for length in (2, 4):
        yield make_one(
            f"last-partial-{length}-not-written", lambda m, new, old, n=length: _keep_from(new, old, _find_tail(new, n))
        )


def _list_bounds() -> Iterator[Operator]:
    for name, edit in (
        ("no-lower-bound", lambda m, b: (-math.inf, b[1])),
        ("no-upper-bound", lambda m, b: (b[0], math.inf)),
        ("lower-bound-zero", lambda m, b: (0.0 if b[1] >= 0 else b[0], b[1])),
        ("lower-bound-from-upper", lambda m, b: (-b[1], b[1])),
        ("upper-bound-from-lower", lambda m, b: (b[0], -b[0])),
        ("bounds-doubled", lambda m, b: (2 * b[0], 2 * b[1])),
        ("bounds-in-two-digits", lambda m, b: (float(f"{b[0]:.1e}"), float(f"{b[1]:.1e}"))),
    ):
        yield Operator(name, "bounds", edit, operations=VALUES)


def _turn(result: Any) -> Any:
    return result.reshape(-1, order="F").reshape(result.shape) if isinstance(result, np.ndarray) else result


def _spoil(grad: Array, place: Any) -> None:
    if grad.flags.writeable:
        grad.reshape(-1)[place] = 0
        # `reshape` may have made a copy: also write into the gradient itself.
        if grad.ndim:
            grad[(-1,) * grad.ndim] = 0


def _refuse(work: Work) -> None:
    message = "the function refuses this"
    raise ValueError(message)


def _list_forms() -> Iterator[Operator]:
    """Yield operators that return results of a wrong form."""
    beside_none = find_level("beside-none")
    yield Operator("in-columns", "form", lambda m, r: _turn(r))
    yield Operator("not-written", "written", lambda m, yes: False, in_place=True)
    yield Operator("refused", "start", lambda m, none, work: _refuse(work))
    yield Operator("none-becomes-zero", "none", lambda m, none: np.zeros(()), level=beside_none)
    for name, step, edit, level in (
        ("other-dtype", "form", lambda m, r: r.astype(OTHER_DTYPES[r.dtype.name]), None),
        ("flattened", "form", lambda m, r: r.reshape(-1), None),
        ("one-more-axis", "form", lambda m, r: r[None], None),
        ("none-instead", "form", lambda m, r: None, None),
        ("input-zeroed", "spoiled", lambda m, none, grad: _spoil(grad, slice(None)), None),
        ("last-of-input-zeroed", "spoiled", lambda m, none, grad: _spoil(grad, slice(-1, None)), None),
        ("results-backwards", "list", lambda m, results: results[::-1], None),
        ("none-dropped", "list", lambda m, results: [r for r in results if r is not None], beside_none),
    ):
        yield Operator(name, step, edit, level=level, in_place=False)


def _list_flags() -> Iterator[Operator]:
    """Yield operators that change which gradients take part, and what becomes of the others."""
    yield Operator("gradient-skipped", "clips", lambda m, flag: False)
    yield Operator("gradient-ignored", "counts", lambda m, flag: False, operations=NORMS)
    yield Operator("excluded-counted", "counts", lambda m, flag: True, "excluded", GLOBAL)
    for name, step, edit, in_place in (
        ("excluded-clipped", "clips", lambda m, flag: True, None),
        ("excluded-zeroed", "left", lambda m, grad: np.zeros_like(grad), None),
        ("last-of-excluded-zeroed", "left", lambda m, grad: _set_flat(grad, slice(-1, None), 0), None),
        (
            "first-of-excluded-negated",
            "left",
            lambda m, grad: _set_flat(grad, slice(1), -grad.reshape(-1)[:1]),
            None,
        ),
        ("excluded-narrowed", "left", lambda m, grad: _narrow(np.ascontiguousarray(grad)).reshape(grad.shape), None),
        ("excluded-in-columns", "left", lambda m, grad: _turn(grad), None),
        ("excluded-is-none", "left", lambda m, grad: None, False),
        ("excluded-in-other-dtype", "left", lambda m, grad: grad.astype(OTHER_DTYPES[grad.dtype.name]), False),
        ("excluded-input-zeroed", "spoiled", lambda m, none, grad: _spoil(grad, slice(None)), False),
        ("refused-for-excluded", "start", lambda m, none, work: _refuse(work), None),
    ):
        yield Operator(name, step, edit, "excluded", in_place=in_place)


def _list_returned() -> Iterator[Operator]:
    """Yield operators that return another norm."""
    for name, edit in (
        ("returned-zero", lambda m, n, work: 0.0),
        ("returned-after", lambda m, n, work: min(n, work.threshold)),
        ("returned-in-float16", lambda m, n, work: float(np.float16(n))),
        ("returned-squared", lambda m, n, work: n * n),
        (
            "returned-with-excluded",
            lambda m, n, work: math.sqrt(
                n * n + sum(float(np.sum(np.square(work.grads[i], dtype=np.float64))) for i in work.excluded)
            ),
        ),
    ):
        yield Operator(name, "returned", edit, operations=GLOBAL)


OPERATORS: dict[str, Operator] = {
    operator.name: operator
    for operators in (_list_sums, _list_scalars, _list_results, _list_bounds, _list_forms, _list_flags, _list_returned)
    for operator in operators()
}
