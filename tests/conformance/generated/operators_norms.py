"""Define the mutation operators on the measurement of the norm and on computations with the norm."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from .facts import NORMS, Array
from .faults import Edit, Operator
from .operators_results import find_tail, narrow
from .triggers import LENGTHS, Level, find_level

__all__ = ["list_norm_operators"]


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
    yield make_one("narrowed-before-counting", lambda m, row, g: narrow(np.ascontiguousarray(row)))
    yield make_one("memory-counted", lambda m, row, g: _read_base(row, g))
    yield make_one("last-row-not-counted", lambda m, row, g: g[:-1].reshape(-1) if g.ndim > 1 else row)
    yield make_one("last-column-not-counted", lambda m, row, g: g[..., :-1].reshape(-1) if g.ndim > 1 else row)
    for length in LENGTHS:
        level = find_level(f"over-{length}")
        yield make_one(
            f"last-partial-{length}-not-counted", lambda m, row, g, n=length: row[: find_tail(row, n)], level
        )
        yield make_one(f"only-first-{length}-counted", lambda m, row, g, n=length: row[:n], level)
    for length in (2, 4):
        yield make_one(f"last-partial-{length}-not-counted", lambda m, row, g, n=length: row[: find_tail(row, n)])
    chunked = ("chunked",)
    for name, edit in (
        ("last-chunk-forgotten", lambda m, pieces: pieces[:-1]),
        ("last-partial-chunk-forgotten", lambda m, pieces: [p for p in pieces if p.size == pieces[0].size]),
        ("last-of-each-chunk-forgotten", lambda m, pieces: [p[:-1] for p in pieces]),
        ("second-chunk-read-twice", lambda m, pieces: [*pieces, *pieces[1:2]]),
    ):
        yield Operator(name, "pieces", edit, operations=NORMS, styles=chunked)
    foreach = ("foreach",)
    glob = ("clip_by_global_norm",)
    yield Operator("norms-added", "norms", lambda m, norms: [math.fsum(norms)], operations=glob, styles=foreach)
    yield Operator(
        "largest-norm-taken", "norms", lambda m, norms: [max(norms, default=0.0)], operations=glob, styles=foreach
    )
    yield Operator("last-norm-forgotten", "norms", lambda m, norms: norms[:-1], operations=glob, styles=foreach)


def _list_scalars() -> Iterator[Operator]:
    """Yield operators that change a norm, or a number that is computed with it."""

    def make_one(name: str, step: str, edit: Edit) -> Operator:
        return Operator(name, step, edit, operations=NORMS)

    yield make_one("previous-norm", "norm", lambda m, n, parts: m.get("norm", n))
    yield make_one(
        "norm-of-one-gradient",
        "norm",
        lambda m, n, parts: math.sqrt(float(np.sum(np.square(parts[0][1], dtype=np.float64)))) if parts else n,
    )
    yield make_one("norm-plus-epsilon", "norm", lambda m, n, parts: n * (1 + 2**-9))
    yield make_one("norm-in-three-digits", "norm", lambda m, n, parts: float(f"{n:.2e}"))
    yield make_one("norm-in-float16", "norm", lambda m, n, parts: float(np.float16(n)))
    yield make_one("norm-squared", "norm", lambda m, n, parts: n * n)
    yield make_one("norm-halved", "norm", lambda m, n, parts: n / 2)
    yield make_one("squares-in-the-dtype", "norm", lambda m, n, parts: _sum_in_dtype(n, parts))
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


def _sum_in_dtype(norm: float, parts: Any) -> float:
    """Add squares in the dtype of the elements, so that they leave its range."""
    return math.sqrt(sum(float(np.sum(np.square(row))) for _, row in parts)) if parts else norm


def list_norm_operators() -> Iterator[Operator]:
    """Yield the operators of clips by norm."""
    yield from _list_sums()
    yield from _list_scalars()
