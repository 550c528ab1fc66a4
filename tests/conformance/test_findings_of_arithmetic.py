"""Check the findings about functions whose arithmetic leaves the range of the dtype, or forgets special elements."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from runs import find_causes, make_adapter

import gradclip_spec
from gradclip_adapters.contract import Array
from gradclip_adapters.plain import PlainFunction
from gradclip_conformance.causes.facts import Tensor, raise_to_power
from gradclip_conformance.oracle.arrays import decode

Clip = Callable[..., Any]


@pytest.mark.parametrize("exponent", [-1900, -301, 0, 7, 1203])
def test_power_of_any_size_is_exact_or_nearly_so(exponent: int) -> None:
    root = Fraction(3, 2) * Fraction(2) ** exponent

    assert raise_to_power(root, 6.0) == root**6
    assert abs(raise_to_power(root**2, 2.5) / root**5 - 1) < Fraction(1, 2**48)
    assert raise_to_power(Fraction(0), 2.5) == 0


def square_in_dtype(grads: Sequence[Any]) -> Any:
    """Return the norm whose squares and sum have the dtype of the gradients."""
    return np.sqrt(sum((g * g).sum(dtype=g.dtype) for g in grads)).astype(grads[0].dtype)


def find_norm(grads: Sequence[Any]) -> Any:
    """Return the right norm, rounded to float32."""
    return np.float32(gradclip_spec.global_norm(grads))


def scales_always(grads: Any, *, clip_norm: float) -> Any:
    return [g * (np.float32(clip_norm) / square_in_dtype(grads)) for g in grads]


def divides_the_smaller(grads: Any, *, clip_norm: float) -> Any:
    norm = square_in_dtype(grads)
    return [g * (np.minimum(np.float32(clip_norm), norm) / norm) for g in grads]


def multiplies_first(grads: Any, *, clip_norm: float) -> Any:
    norm = find_norm(grads)
    return [(g * np.float32(clip_norm)) / norm if norm > clip_norm else g for g in grads]


def multiplies_first_by_squares(grads: Any, *, clip_norm: float) -> Any:
    norm = square_in_dtype(grads)
    return [(g * np.float32(clip_norm)) / norm if norm > clip_norm else g for g in grads]


def multiplies_by_the_reciprocal(grads: Any, *, clip_norm: float) -> Any:
    norm = find_norm(grads)
    return [g * (np.float32(clip_norm) * (1 / norm)) if norm > clip_norm else g for g in grads]


def rounds_the_coefficient(grads: Any, *, clip_norm: float) -> Any:
    return [g * np.minimum(np.float32(1), np.float32(clip_norm) / find_norm(grads)) for g in grads]


def flushes_the_coefficient(grads: Any, *, clip_norm: float) -> Any:
    coefficient = np.float32(min(1.0, clip_norm / float(find_norm(grads))))
    return [g * (coefficient if coefficient >= np.finfo(np.float32).tiny else np.float32(0)) for g in grads]


def flushes_the_gradients(grads: Any, *, clip_norm: float) -> Any:
    flushed = [np.where(np.abs(g) < np.finfo(g.dtype).tiny, 0, g).astype(g.dtype) for g in grads]
    return list(gradclip_spec.clip_by_global_norm(flushed, clip_norm)[0])


def leaves_out_nonfinite(grads: Any, *, clip_norm: float) -> Any:
    """Clip the finite elements by their own norm, and keep the others."""
    norm = math.sqrt(sum(float((g[np.isfinite(g)].astype(np.float64) ** 2).sum()) for g in grads))
    coefficient = np.float32(min(1.0, clip_norm / norm) if norm else 1.0)
    return [np.where(np.isfinite(g), g * coefficient, g) for g in grads]


@pytest.mark.parametrize(
    ("function", "rule", "cause", "effect", "severity"),
    [
        (scales_always, "underflow-of-squares", "squares-underflow", "infinite", "destroyed"),
        (divides_the_smaller, "underflow-of-squares", "squares-underflow", "nan", "destroyed"),
        (multiplies_first_by_squares, "overflow-of-squares", "squares-overflow", "zeros and nan", "destroyed"),
        (multiplies_first, "intermediate-range", "product-out-of-range", "product-out-of-range", "wrong"),
        (
            multiplies_by_the_reciprocal,
            "subnormal underflow-of-squares",
            "reciprocal-out-of-range",
            "infinite",
            "destroyed",
        ),
        (rounds_the_coefficient, "coefficient-underflow", "coefficient-underflow", "scaled", "destroyed"),
        (
            flushes_the_coefficient,
            "coefficient-underflow overflow-of-squares",
            "coefficient-underflow",
            "zeros",
            "destroyed",
        ),
        (
            flushes_the_gradients,
            "subnormal intermediate-range",
            "subnormals-flushed",
            "subnormals-flushed",
            "rounding",
        ),
        (leaves_out_nonfinite, "infinity-not-silent", "nonfinite-silent", "left out", "silent"),
    ],
)
def test_step_that_leaves_the_range_is_named(function: Clip, rule: str, cause: str, effect: str, severity: str) -> None:
    with np.errstate(all="ignore"):
        # A function that keeps the rule about squares cannot show their underflow.
        found = find_causes(make_adapter(function), *(f"global-norm.{name}" for name in rule.split()))

    # Several effects of one cause are joined.
    shown = {told: how for told, how in found.items() if told[0] == cause and effect in told[-1]}
    assert shown, found
    assert severity in shown.values()
    # If a coefficient is too small, the squares of some of these gradients overflow, too.
    assert {name for name, *_ in found} <= {cause, "squares-overflow"}


@pytest.mark.thorough(sample=0)
def test_square_of_the_threshold_that_leaves_the_range_is_named() -> None:
    def compare_squares(grads: Any, *, clip_norm: float) -> Any:
        # The norm is right. Only the threshold is squared in the dtype of the gradients.
        square = np.maximum(float(gradclip_spec.global_norm(grads)) ** 2, np.float64(np.float16(clip_norm) ** 2))
        return [g * np.float16(clip_norm / np.sqrt(square)) for g in grads]

    rules = "global-norm.identity-below", "global-norm.underflow-of-squares", "global-norm.scaled-above"
    with np.errstate(all="ignore"):
        found = find_causes(make_adapter(compare_squares, dtype="float16"), *rules)

    assert found.pop(("threshold-square-out-of-range", "scaled | zeros")) == "destroyed"
    # The coefficient is rounded to float16, too.
    assert set(found) <= {("not-exact-below",)}


def test_sum_of_squares_that_underflows_beside_an_epsilon() -> None:
    def add_eps(grads: Any, *, clip_norm: float) -> Any:
        half = np.float16
        return [g * np.minimum(half(1), half(clip_norm) / (square_in_dtype(grads) + half(1e-3))) for g in grads]

    rules = "global-norm.underflow-of-squares", "global-norm.scaled-above"
    with np.errstate(all="ignore"):
        found = find_causes(make_adapter(add_eps, dtype="float16"), *rules)

    assert {name for name, *_ in found} == {"eps-in-coefficient", "squares-underflow"}
    assert found["squares-underflow", "scaled"] == "wrong"


@pytest.mark.parametrize("part", ["coefficient", "norm"])
def test_number_that_is_rounded_to_half_precision_is_named(part: str) -> None:
    def clip(grads: Any, *, clip_norm: float) -> Any:
        norm = float(gradclip_spec.global_norm(grads))
        if norm <= clip_norm:
            return list(grads)
        coefficient = np.float16(clip_norm / norm) if part == "coefficient" else clip_norm / float(np.float16(norm))
        return [g * g.dtype.type(coefficient) for g in grads]

    found = find_causes(make_adapter(clip), "global-norm.scaled-above", "global-norm.one-norm-over-all")

    assert found["narrower-arithmetic", "float16"] == "wrong"
    # In some cells, a number of half precision is near by chance. A norm above the range of half precision is infinite.
    assert {name for name, *_ in found} <= {"narrower-arithmetic", "long-sum", "unexplained"}


def round_to_single(number: float) -> np.float64:
    return np.float64(np.float32(number))


@pytest.mark.parametrize(
    "scale",
    [
        lambda g, c, n: g * round_to_single(c) / max(n, c),
        lambda g, c, n: g * (round_to_single(c) / round_to_single(n)) if n > c else g,
        lambda g, c, n: g * (c * round_to_single(1 / n)) if n > c else g,
    ],
    ids=["threshold that multiplies", "threshold and norm", "reciprocal"],
)
def test_numbers_that_are_rounded_to_single_precision_are_named(scale: Callable[..., Any]) -> None:
    def clip(grads: Any, *, clip_norm: float) -> Any:
        norm = float(gradclip_spec.global_norm(grads))
        return [scale(g, clip_norm, norm) for g in grads]

    # These gradients have norms, and thresholds, that float32 cannot represent.
    rules = ("global-norm.scaled-above", "global-norm.identity-below", "global-norm.tensor-order")
    found = find_causes(make_adapter(clip, dtype="float64"), *rules)

    assert {name for name, *_ in found} == {"narrower-arithmetic"}


def test_threshold_and_epsilon_that_are_rounded_to_single_precision_are_named() -> None:
    """MLX 0.29 rounds the numbers of Python, and computes in float64."""

    def clip(grads: Any, *, clip_norm: float) -> Any:
        norm = float(gradclip_spec.global_norm(grads))
        coefficient = min(1.0, float(np.float32(clip_norm)) / (norm + float(np.float32(1e-6))))
        return [g * g.dtype.type(coefficient) for g in grads]

    rules = [f"global-norm.{name}" for name in ("scaled-above", "at-threshold", "tensor-order", "intermediate-range")]
    found = find_causes(make_adapter(clip, dtype="float64"), *rules)

    assert {name for name, *_ in found} <= {"eps-in-coefficient", "narrower-arithmetic"}
    assert ("narrower-arithmetic", "float32") in found


def count_elements(grads: Sequence[Any]) -> int:
    return max(1, sum(g.size for g in grads))


@pytest.mark.parametrize(
    ("measure", "causes"),
    [
        (lambda grads, norm: norm / math.sqrt(count_elements(grads)), {"mean-of-squares"}),
        (lambda grads, norm: sum(float(np.abs(g).sum()) for g in grads), {"other-order"}),
        # If each gradient has one element, the sum of their norms is also the norm of order 1. One name is enough.
        (lambda grads, norm: sum(float(gradclip_spec.global_norm([g])) for g in grads), {"sum-of-norms"}),
    ],
    ids=["mean", "order", "sum-of-norms"],
)
def test_other_norm_that_is_returned_is_named(measure: Callable[..., Any], causes: set[str]) -> None:
    def clip(grads: Any, *, clip_norm: float) -> Any:
        clipped, norm = gradclip_spec.clip_by_global_norm(grads, clip_norm)
        return list(clipped), measure([g for g in grads if g is not None], float(norm))

    found = find_causes(make_adapter(clip), "global-norm.returned-norm")

    assert {name for name, *_ in found} == causes


def test_norm_that_is_almost_right_is_not_put_down_to_an_epsilon() -> None:
    """A long sum explains the norm, as long as it does not explain the results of the epsilon, too."""

    def clip(grads: Any, *, clip_norm: float) -> Any:
        norm = float(gradclip_spec.global_norm(grads))
        coefficient = min(1.0, clip_norm / (norm + 1e-6))
        return [None if g is None else g * coefficient for g in grads], norm * (1 + 2.0**-50)

    rules = [f"global-norm.{name}" for name in ("scaled-above", "combinations/*_below_*")]
    found = find_causes(make_adapter(clip, dtype="float64"), *rules)

    assert {name for name, *_ in found} == {"eps-in-coefficient", "long-sum"}


def test_epsilon_is_named_where_it_shows_by_less_than_two_roundings() -> None:
    """The answers in float64 tell its size."""

    def clip(grads: Any, *, clip_norm: float, norm_type: float = 2.0) -> Any:
        number = grads[0].dtype.type
        norm = number(gradclip_spec.global_norm(grads, norm_type=norm_type))
        coefficient = min(number(1), number(clip_norm) / (norm + number(1e-6)))
        return [g * coefficient for g in grads], norm

    adapter = PlainFunction(clip, "clip_by_global_norm", dtypes=("float32", "float64"))
    found = find_causes(adapter, "global-norm.infinity-norm", "global-norm.scaled-above")

    assert {name for name, *_ in found} == {"eps-in-coefficient"}


def test_norm_that_leaves_out_nonfinite_elements_is_silent() -> None:
    def clip(grads: Any, *, clip_norm: float) -> Any:
        clipped, _ = gradclip_spec.clip_by_global_norm(grads, clip_norm)
        return list(clipped), gradclip_spec.global_norm([g[np.isfinite(g)] for g in grads])

    found = find_causes(make_adapter(clip), "global-norm.returned-norm-nonfinite")

    assert found == {("nonfinite-silent", "norm"): "silent"}


def test_root_that_is_left_out_is_named_for_each_order() -> None:
    def clip(grads: Any, *, clip_norm: float, norm_type: float = 2.0) -> Any:
        norm = float(gradclip_spec.global_norm(grads, norm_type=norm_type))
        power = norm if norm_type in (1, math.inf) else norm**norm_type
        return [g * g.dtype.type(min(1.0, clip_norm / power)) for g in grads]

    found = find_causes(make_adapter(clip), "global-norm.p-norm", "global-norm.infinity-norm")

    assert found == {("no-root",): "wrong"}


@pytest.mark.parametrize(("factor", "causes"), [(1, {("count-changed", "none dropped")}), (2, {("count-changed",)})])
def test_dropped_none_is_named_beside_right_and_wrong_numbers(factor: int, causes: set[tuple[str, ...]]) -> None:
    def clip(grads: Any, *, clip_norm: float) -> Any:
        clipped, _ = gradclip_spec.clip_by_global_norm(grads, clip_norm)
        return [factor * g for g in clipped if g is not None]

    assert set(find_causes(make_adapter(clip), "global-norm.none-stays-none")) == causes


@pytest.mark.thorough(sample=0)
def test_element_that_a_clip_by_value_leaves_is_named() -> None:
    def clip(grads: Any, *, max: float, min: float) -> Any:
        clipped = [np.clip(g, min, max).astype(g.dtype) for g in grads]
        for given, got in zip(grads, clipped, strict=True):
            got.reshape(-1)[1:] = given.reshape(-1)[1:]
        return clipped

    found = find_causes(make_adapter(clip, "clip_by_value"), "value.bounds")

    assert found["not-clipped", "some"] == "unclipped"


def test_flushed_elements_of_a_clip_by_value_are_named() -> None:
    def clip(grads: Any, *, max: float, min: float) -> Any:
        return [np.clip(np.where(np.abs(g) < np.finfo(g.dtype).tiny, 0, g), min, max).astype(g.dtype) for g in grads]

    found = find_causes(make_adapter(clip, "clip_by_value"), "value.bounds")

    assert found == {("subnormals-flushed",): "rounding"}


def test_subnormal_bounds_that_count_as_equal_are_named() -> None:
    def flush(numbers: Any) -> Any:
        return np.where(np.abs(numbers) < np.finfo(np.float32).tiny, 0, numbers)

    def clip(grads: Any, *, max: float, min: float) -> Any:
        # Each element becomes the upper bound, if both bounds are subnormal.
        raised = [np.where(flush(g) <= flush(min), min, g) for g in grads]
        return [np.where(flush(g) >= flush(max), max, g).astype(np.float32) for g in raised]

    found = find_causes(make_adapter(clip, "clip_by_value"), "value.bounds")

    assert found == {("subnormals-flushed",): "rounding"}


@pytest.mark.parametrize("result", [5e-324, 1.0])
def test_factor_beyond_float64_is_compared_exactly(result: float) -> None:
    given, got = (Array.of(np.array([number])) for number in (5e-324, result))
    tensor = Tensor(0, given, got, decode(given.data, "float64"))

    # A model may give such a factor for subnormal gradients.
    assert not tensor.is_scaled_by(Fraction(2) ** 1100, 4.0)
    assert tensor.is_scaled_by(Fraction(2) ** 1074, 4.0) is (result == 1.0)


def take_signed_root(values: Any, order: float) -> Any:
    with np.errstate(all="ignore"):
        return np.float64((np.asarray(values, np.float64) ** order).sum()) ** (1 / order)


def test_powers_with_signs_are_named() -> None:
    def clip(grads: Any, *, clip_norm: float, norm_type: float = 2.0) -> Any:
        if norm_type == math.inf:
            return list(gradclip_spec.clip_by_global_norm(grads, clip_norm, norm_type=norm_type)[0])
        norm = take_signed_root([take_signed_root(g, norm_type) for g in grads], norm_type)
        coefficient = clip_norm / norm if norm else 1.0
        return [g * g.dtype.type(coefficient) if coefficient < 1 else g for g in grads]

    found = find_causes(make_adapter(clip), "global-norm.p-norm")

    assert {name for name, *_ in found} == {"signed-powers"}


def test_memory_of_an_empty_sum_is_named() -> None:
    def clip(grads: Any, *, clip_norm: float) -> Any:
        norm = float(gradclip_spec.global_norm(grads))
        norm = math.hypot(norm, *(1.75 for g in grads if not g.size))
        return [g * g.dtype.type(clip_norm / norm) if norm > clip_norm else g for g in grads]

    found = find_causes(make_adapter(clip), "global-norm.empty-tensor", "global-norm.splitting-and-joining")

    assert {name for name, *_ in found} == {"empty-counted"}


def cut_by_ratio(g: Any, clip_norm: float, norm: float) -> Any:
    """Scale gradients below the threshold, too, if their least norm is above it."""
    return g * g.dtype.type(clip_norm / max(norm, clip_norm))


def cut_above(g: Any, clip_norm: float, norm: float) -> Any:
    """Scale only gradients above the threshold."""
    return g if gradclip_spec.global_norm([g]) <= clip_norm else cut_by_ratio(g, clip_norm, norm)


@pytest.mark.parametrize(("cut", "least"), [(cut_by_ratio, 1e-3), (cut_by_ratio, 1e-6), (cut_above, 1e-3)])
def test_norm_with_a_least_value_is_named(cut: Callable[..., Any], least: float) -> None:
    def clip(grads: Any, *, clip_norm: float) -> Any:
        return [cut(g, clip_norm, max(float(gradclip_spec.global_norm([g])), least)) for g in grads]

    rules = ("norm.scaled-above", "norm.at-threshold", "norm.identity-below", "norm.underflow-of-squares")
    found = find_causes(make_adapter(clip, "clip_by_norm", "float64"), *rules)

    assert set(found) == {("norm-replaced", least)}
