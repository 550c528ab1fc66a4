"""Define the mutation operators on results, flags and forms."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from .facts import NORMS, Array, Work
from .faults import Edit, Operator
from .triggers import LENGTHS, Level, find_level

__all__ = ["find_tail", "list_result_operators", "narrow"]


def find_tail(row: Array, length: int) -> int:
    """Return the place where the last partial chunk begins. The row's length if no partial chunk follows a full one."""
    return row.size - row.size % length if row.size > length else row.size


def narrow(value: Array) -> Array:
    """Drop the last binary digits of each element (3 of 11 in float16, about half in others), and keep the dtype."""
    if value.dtype == np.float16:
        return (value.view(np.uint16) & np.uint16(0xFFF8)).view(np.float16)
    narrower = np.float16 if value.dtype == np.float32 else np.float32
    return value.astype(narrower).astype(value.dtype)


def _set(result: Array, place: Any, value: Any) -> Array:
    changed = np.array(result, copy=True)
    changed[place] = value
    return changed


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
    yield make_one("last-digit-lost", lambda m, new, old: narrow(np.ascontiguousarray(new)))
    yield make_one("first-copied-to-last", lambda m, new, old: _set(new, slice(-1, None), new[:1]))
    yield make_one("last-nan", lambda m, new, old: _set(new, slice(-1, None), math.nan))
    for length in LENGTHS:
        level = find_level(f"over-{length}")
        yield make_one(
            f"last-partial-{length}-not-written",
            lambda m, new, old, n=length: _keep_from(new, old, find_tail(new, n)),
            level,
        )
        yield make_one(f"after-{length}-zeroed", lambda m, new, old, n=length: _set(new, slice(n, None), 0), level)
        yield make_one(f"element-{length}-not-written", lambda m, new, old, n=length: _set(new, n, old[n]), level)
    for length in (2, 4):
        yield make_one(
            f"last-partial-{length}-not-written", lambda m, new, old, n=length: _keep_from(new, old, find_tail(new, n))
        )


def _list_bounds() -> Iterator[Operator]:
    """Yield operators that limit by other bounds."""
    value = ("clip_by_value",)
    for name, edit in (
        ("no-lower-bound", lambda m, b: (-math.inf, b[1])),
        ("no-upper-bound", lambda m, b: (b[0], math.inf)),
        ("lower-bound-zero", lambda m, b: (0.0 if b[1] >= 0 else b[0], b[1])),
        ("lower-bound-from-upper", lambda m, b: (-b[1], b[1])),
        ("upper-bound-from-lower", lambda m, b: (b[0], -b[0])),
        ("bounds-doubled", lambda m, b: (2 * b[0], 2 * b[1])),
        ("bounds-in-two-digits", lambda m, b: (float(f"{b[0]:.1e}"), float(f"{b[1]:.1e}"))),
    ):
        yield Operator(name, "bounds", edit, operations=value)


def _turn(result: Any) -> Any:
    """Put the elements into column order."""
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
    wider = {"float16": np.float32, "float32": np.float64, "float64": np.float32}
    yield Operator("in-columns", "form", lambda m, r: _turn(r))
    yield Operator("other-dtype", "form", lambda m, r: r.astype(wider[r.dtype.name]), in_place=False)
    yield Operator("flattened", "form", lambda m, r: r.reshape(-1), in_place=False)
    yield Operator("one-more-axis", "form", lambda m, r: r[None], in_place=False)
    yield Operator("none-instead", "form", lambda m, r: None, in_place=False)
    yield Operator("not-written", "written", lambda m, yes: False, in_place=True)
    yield Operator("input-zeroed", "spoiled", lambda m, none, grad: _spoil(grad, slice(None)), in_place=False)
    yield Operator(
        "last-of-input-zeroed", "spoiled", lambda m, none, grad: _spoil(grad, slice(-1, None)), in_place=False
    )
    yield Operator("refused", "start", lambda m, none, work: _refuse(work))
    yield Operator("results-backwards", "list", lambda m, results: results[::-1], in_place=False)
    yield Operator(
        "none-dropped",
        "list",
        lambda m, results: [r for r in results if r is not None],
        level=find_level("beside-none"),
        in_place=False,
    )
    yield Operator("none-becomes-zero", "none", lambda m, none: np.zeros(()), level=find_level("beside-none"))


def _list_flags() -> Iterator[Operator]:
    """Yield operators that change which gradients take part."""
    no, yes = (lambda m, flag: False), (lambda m, flag: True)
    yield Operator("gradient-skipped", "clips", no)
    yield Operator("gradient-ignored", "counts", no, operations=NORMS)
    yield Operator("excluded-counted", "counts", yes, "excluded", ("clip_by_global_norm",))
    yield Operator("excluded-clipped", "clips", yes, "excluded")
    yield Operator("excluded-zeroed", "left", lambda m, grad: np.zeros_like(grad), "excluded")
    yield Operator(
        "last-of-excluded-zeroed",
        "left",
        lambda m, grad: _set(grad.reshape(-1), slice(-1, None), 0).reshape(grad.shape),
        "excluded",
    )
    yield Operator(
        "first-of-excluded-negated",
        "left",
        lambda m, grad: _set(grad.reshape(-1), slice(0, 1), -grad.reshape(-1)[:1]).reshape(grad.shape),
        "excluded",
    )
    yield Operator(
        "excluded-narrowed", "left", lambda m, grad: narrow(np.ascontiguousarray(grad)).reshape(grad.shape), "excluded"
    )
    yield Operator("excluded-in-columns", "left", lambda m, grad: _turn(grad), "excluded")
    yield Operator("excluded-is-none", "left", lambda m, grad: None, "excluded", in_place=False)
    yield Operator(
        "excluded-in-other-dtype",
        "left",
        lambda m, grad: grad.astype(np.float64 if grad.dtype != np.float64 else np.float32),
        "excluded",
        in_place=False,
    )
    yield Operator(
        "excluded-input-zeroed", "spoiled", lambda m, none, grad: _spoil(grad, slice(None)), "excluded", in_place=False
    )
    yield Operator("refused-for-excluded", "start", lambda m, none, work: _refuse(work), "excluded")


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
        yield Operator(name, "returned", edit, operations=("clip_by_global_norm",))


def list_result_operators() -> Iterator[Operator]:
    """Yield the operators of all operations."""
    yield from _list_results()
    yield from _list_bounds()
    yield from _list_forms()
    yield from _list_flags()
    yield from _list_returned()
