"""Check that each relation between calls catches the function that breaks it, and no function that keeps it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from gradclip_adapters.contract import Array
from gradclip_conformance import check_clipper
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.cases.themes import metamorphic
from gradclip_conformance.judge.relations import RELATIONS, multiply_by_power_of_two
from gradclip_conformance.judge.single_call import OF_ONE

Grads = list[Any]
ClipFunction = Callable[..., Grads]

NORMS = ("clip_by_norm", "clip_by_global_norm")


def compute_norm(grads: Sequence[Any]) -> float:
    """Return the norm of several arrays in float64."""
    return math.sqrt(math.fsum(float(x) ** 2 for grad in grads for x in np.ravel(grad).astype(np.float64)))


def make_clip(coefficient: Callable[[float, float], float]) -> ClipFunction:
    """Return a clip by global norm whose coefficient is a function of the norm and the threshold."""

    def clip(grads: Grads, *, clip_norm: float, need_clip: list[bool]) -> Grads:
        norm = compute_norm([grad for grad, flag in zip(grads, need_clip, strict=True) if grad is not None and flag])
        factor = coefficient(norm, clip_norm)
        return [
            grad if grad is None or not flag else (grad * factor).astype(grad.dtype)
            for grad, flag in zip(grads, need_clip, strict=True)
        ]

    return clip


def compute_coefficient(norm: float, threshold: float) -> float:
    """Return the coefficient of the neutral formula."""
    return threshold / norm if norm > threshold else 1.0


def change_results(result: Callable[[Grads], Grads]) -> ClipFunction:
    """Return the right clip followed by a change of its results."""

    def clip(grads: Grads, *, clip_norm: float, need_clip: list[bool]) -> Grads:
        return result(make_clip(compute_coefficient)(grads, clip_norm=clip_norm, need_clip=need_clip))

    return clip


def divide_by_count(grads: Grads, *, clip_norm: float, need_clip: list[bool]) -> Grads:
    """Divide by the number of gradients, including missing and excluded ones."""
    return make_clip(compute_coefficient)(grads, clip_norm=clip_norm * 3 / max(len(grads), 1), need_clip=need_clip)


def count_first_twice(grads: Grads, *, clip_norm: float, need_clip: list[bool]) -> Grads:
    """Count the first gradient twice in the norm."""
    included = [grad for grad, flag in zip(grads, need_clip, strict=True) if grad is not None and flag]
    factor = compute_coefficient(compute_norm([*included, *included[:1]]), clip_norm)
    return [
        grad if grad is None or not flag else (grad * factor).astype(grad.dtype)
        for grad, flag in zip(grads, need_clip, strict=True)
    ]


def use_mean_square(grads: Grads, *, clip_norm: float, need_clip: list[bool]) -> Grads:
    """Use the root of the mean square as the norm."""
    count = sum(grad.size for grad, flag in zip(grads, need_clip, strict=True) if grad is not None and flag)
    return make_clip(lambda norm, c: compute_coefficient(norm / math.sqrt(max(count, 1)), c / 8))(
        grads, clip_norm=clip_norm, need_clip=need_clip
    )


def _take_magnitudes(grads: Grads) -> Grads:
    return [None if grad is None else np.abs(grad) for grad in grads]


def _erase_small(grads: Grads) -> Grads:
    return [
        None if grad is None else np.where(np.abs(grad) < 0.25, grad * 0, grad).astype(grad.dtype) for grad in grads
    ]


def _shift(grads: Grads) -> Grads:
    return [None if grad is None else grad + grad.dtype.type(2.0**-6) for grad in grads]


BROKEN: tuple[tuple[str, ClipFunction], ...] = (
    ("twice-is-once", make_clip(lambda norm, c: math.sqrt(compute_coefficient(norm, c)))),
    ("power-of-two-scaling", make_clip(lambda norm, c: min(1.0, c / (norm + 0.5)))),
    ("tensor-order", count_first_twice),
    ("splitting-and-joining", count_first_twice),
    ("zeros-added", use_mean_square),
    ("excluded-added", divide_by_count),
    ("none-added", divide_by_count),
    ("direction-kept", change_results(_erase_small)),
    ("direction-kept", change_results(_shift)),
    ("signs-kept", change_results(_take_magnitudes)),
    ("signs-kept", change_results(_shift)),
    ("norm-bounded", make_clip(lambda norm, c: min(1.0, 1.25 * c / norm))),
)


@pytest.mark.thorough(sample=2)
@pytest.mark.parametrize(("name", "clip"), BROKEN, ids=[f"{name}-{i}" for i, (name, _) in enumerate(BROKEN)])
def test_relation_catches_the_clipper_that_breaks_it(name: str, clip: ClipFunction) -> None:
    cells = check_clipper(clip, "clip_by_global_norm", rule=f"global-norm.{name}")

    assert "fail" in {cell["status"] for cell in cells}, cells
    assert all(cell["status"] != "error" for cell in cells)


@pytest.mark.parametrize("name", sorted({name for name, _ in BROKEN}))
def test_relation_accepts_right_functions(name: str) -> None:
    cells = check_clipper(make_clip(compute_coefficient), "clip_by_global_norm", rule=f"global-norm.{name}")

    assert {cell["status"] for cell in cells} == {"pass"}, [cell["detail"] for cell in cells]


def test_other_roundings_for_other_magnitudes_are_quality() -> None:
    def clip(grads: Grads, *, clip_norm: float) -> Grads:
        factor = np.float32(clip_norm / compute_norm(grads))
        steps = np.float32(1.0) / factor if clip_norm > 4 else factor
        return [grad / steps if clip_norm > 4 else grad * steps for grad in grads]

    cells = check_clipper(
        clip, "clip_by_global_norm", rule="global-norm.power-of-two-scaling/clipped-up-by-four/*", dtypes=["float32"]
    )

    assert [cell["status"] for cell in cells] == ["quality"]


def test_second_call_that_raises_fails() -> None:
    calls = []

    def clip(grads: Grads, *, clip_norm: float) -> Grads:
        calls.append(grads)
        # Two calls precede the calls of the case. They find out whether a norm is returned.
        if len(calls) == 4:
            msg = "once only"
            raise RuntimeError(msg)
        return make_clip(compute_coefficient)(grads, clip_norm=clip_norm, need_clip=[True] * len(grads))

    cells = check_clipper(clip, "clip_by_global_norm", rule="global-norm.twice-is-once/clipped/*", dtypes=["float64"])

    assert [cell["status"] for cell in cells] == ["fail"]
    assert "once only" in cells[0]["detail"]


def test_every_relation_has_cases() -> None:
    used = {
        dict(case.expectation.parameters)["relation"]
        for case in list_all_cases()
        if case.expectation.name == "metamorphic"
    }

    assert used == {*RELATIONS, *OF_ONE}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_scaling_by_a_power_of_two_is_exact(dtype: str) -> None:
    before = metamorphic.make_scattered(9, dtype, 5).array
    assert before is not None

    assert multiply_by_power_of_two(multiply_by_power_of_two(before, 3), -3) == before
    assert multiply_by_power_of_two(None, 3) is None


def test_scattered_numbers_use_all_digits() -> None:
    for dtype in ("float32", "float64"):
        array = metamorphic.make_scattered(64, dtype, 1).array
        assert isinstance(array, Array)
        values = array.numpy()

        assert len(set(values.tolist())) == 64
        assert (np.abs(values) <= 4).all()
        odd = np.frombuffer(array.data, dtype="<u4" if dtype == "float32" else "<u8") % 2
        assert dtype == "float64" or 16 < odd.sum() < 48
