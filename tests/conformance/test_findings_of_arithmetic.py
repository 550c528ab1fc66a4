"""Check the findings about functions whose arithmetic differs: another norm, another factor, or too small a range."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from runs import find_causes, make_adapter

import gradclip_spec
from gradclip_adapters.operations import OPERATIONS

Clip = Callable[..., Any]


def find_causes_of(function: Clip, rules: str, operation: str = "clip_by_global_norm", dtype: str = "float32") -> Any:
    """Return the severity of each cause of a function, from some rules of its operation."""
    prefix = OPERATIONS[operation].prefix
    with np.errstate(all="ignore"):
        return find_causes(make_adapter(function, operation, dtype), *(f"{prefix}.{rule}" for rule in rules.split()))


def measure(grads: Any) -> float:
    """Return the right norm, also where float64 does not hold the squares."""
    return math.hypot(*(float(number) for g in grads for number in g.ravel()))


def scale(grads: Any, factor: float) -> list[Any]:
    return [(g.astype(np.float64) * factor).astype(g.dtype) for g in grads]


def multiply_by(compute_factor: Callable[[float, float], float]) -> Clip:
    """Return a function that multiplies by a factor, computed from the right norm and the threshold."""
    return lambda grads, *, clip_norm: scale(grads, compute_factor(measure(grads), clip_norm))


def add_eps(eps: float) -> Clip:
    return multiply_by(lambda norm, threshold: min(1.0, threshold / (norm + eps)))


def clip_to(change_threshold: Callable[[float], float]) -> Clip:

    def compute_factor(norm: float, threshold: float) -> float:
        other = change_threshold(threshold)
        return other / norm if norm > other else 1.0

    return multiply_by(compute_factor)


def clip_each_by(measure_one: Callable[[Any], float]) -> Clip:
    """Return a clip that divides each gradient by a norm of its own."""

    def shrink(g: Any, threshold: float) -> Any:
        norm = measure_one(g)
        return g if norm <= threshold else scale([g], threshold / norm)[0]

    return lambda grads, *, clip_norm: [None if g is None else shrink(g, clip_norm) for g in grads]


def forget_last_element(grads: Any, *, clip_norm: float) -> Any:
    clipped = multiply_by(lambda norm, threshold: min(1.0, threshold / norm))(grads, clip_norm=clip_norm)
    for given, got in zip(grads, clipped, strict=True):
        if got.size > 1:
            got.ravel()[-1] = given.ravel()[-1]
    return clipped


def halve_last_element(grads: Any, *, clip_norm: float) -> Any:
    """Clip with a defect for which there is no model."""
    clipped = forget_last_element(grads, clip_norm=clip_norm)
    for got in clipped:
        got.ravel()[-1] /= 2
    return clipped


def leave_root_out(grads: Any, *, clip_norm: float, norm_type: float = 2.0) -> Any:
    norm = float(gradclip_spec.global_norm(grads, norm_type=norm_type))
    power = norm if norm_type in (1, math.inf) else norm**norm_type
    return [g * g.dtype.type(min(1.0, clip_norm / power)) for g in grads]


def take_signed_root(values: Any, order: float) -> Any:
    return np.float64((np.asarray(values, np.float64) ** order).sum()) ** (1 / order)


def keep_signs_of_powers(grads: Any, *, clip_norm: float, norm_type: float = 2.0) -> Any:
    if norm_type == math.inf:
        return list(gradclip_spec.clip_by_global_norm(grads, clip_norm, norm_type=norm_type)[0])
    norm = take_signed_root([take_signed_root(g, norm_type) for g in grads], norm_type)
    coefficient = clip_norm / norm if norm else 1.0
    return [g * g.dtype.type(coefficient) if coefficient < 1 else g for g in grads]


def count_memory_for_empty_sums(grads: Any, *, clip_norm: float) -> Any:
    norm = math.hypot(measure(grads), *(1.75 for g in grads if not g.size))
    return [g * g.dtype.type(clip_norm / norm) if norm > clip_norm else g for g in grads]


def square_in_float64(grads: Any, *, clip_norm: float) -> Any:
    norm = math.sqrt(sum((g**2).sum() for g in grads if g is not None))
    factor = clip_norm / norm if norm > clip_norm else 1.0
    return [None if g is None else scale([g], factor)[0] for g in grads]


def convert_norm_to_each_dtype(grads: Any, *, clip_norm: float) -> Any:
    """Divide each gradient by the norm in the gradient's own dtype, as Optax does."""
    wide = max((g.dtype for g in grads), key=lambda dtype: dtype.itemsize)
    norm = np.sqrt(sum(np.sum(np.square(g.astype(wide))) for g in grads))
    return [g if norm < clip_norm else (g / norm.astype(g.dtype)) * g.dtype.type(clip_norm) for g in grads]


def divide_first(grads: Any, *, clip_norm: float) -> Any:
    """Multiply by a threshold that a narrower dtype does not hold."""
    norm = measure(grads)
    if norm <= clip_norm:
        return list(grads)
    return [(g / np.float64(norm)).astype(g.dtype) * g.dtype.type(clip_norm) for g in grads]


def leave_small_norms(grads: Any, *, clip_norm: float) -> Any:
    """Leave small gradients as they are, but return their right norm."""
    norm = measure(grads)
    return scale(grads, clip_norm / norm if norm > max(clip_norm, 1e-12) else 1.0), norm


def round_numbers_of_python(grads: Any, *, clip_norm: float) -> Any:
    """Round the threshold and the epsilon to float32, and compute in float64, as MLX 0.29 does."""
    coefficient = min(1.0, float(np.float32(clip_norm)) / (measure(grads) + float(np.float32(1e-6))))
    return [g * g.dtype.type(coefficient) for g in grads]


def add_eps_in_dtype(grads: Any, *, clip_norm: float, norm_type: float = 2.0) -> Any:
    number = grads[0].dtype.type
    norm = number(gradclip_spec.global_norm(grads, norm_type=norm_type))
    coefficient = min(number(1), number(clip_norm) / (norm + number(1e-6)))
    return [g * coefficient for g in grads], norm


def to_single(number: float) -> np.float64:
    return np.float64(np.float32(number))


def flush(numbers: Any) -> Any:
    return np.where(np.abs(numbers) < np.finfo(np.float32).tiny, 0, numbers)


def flush_values(grads: Any, *, max: float, min: float) -> Any:
    return [np.clip(flush(g), min, max).astype(g.dtype) for g in grads]


def flush_in_comparisons(grads: Any, *, max: float, min: float) -> Any:
    """Return the upper bound for each element if both bounds are subnormal, and so count as equal."""
    raised = [np.where(flush(g) <= flush(min), min, g) for g in grads]
    return [np.where(flush(g) >= flush(max), max, g).astype(np.float32) for g in raised]


def divide_each_example(grads: Any, *, clip_norm: float) -> Any:
    """Add the examples, each divided by the larger of 1 and norm / threshold. Zero divided by zero is NaN."""
    norms = [np.float64(measure([grad[number] for grad in grads])) for number in range(len(grads[0]))]
    parts = [np.maximum(norm / np.float64(clip_norm), 1.0) for norm in norms]
    return [sum(one / part for one, part in zip(grad, parts, strict=True)).astype(grad.dtype) for grad in grads]


def cut_with_least_norm(least: float) -> Clip:
    """Return a clip that scales gradients below the threshold, too, if their least norm is above it."""
    return lambda grads, *, clip_norm: [scale([g], clip_norm / max(measure([g]), least, clip_norm))[0] for g in grads]


def cut_above_with_least_norm(grads: Any, *, clip_norm: float) -> Any:
    """Scale only gradients above the threshold."""
    cut = cut_with_least_norm(1e-3)
    return [g if measure([g]) <= clip_norm else cut([g], clip_norm=clip_norm)[0] for g in grads]


def square_in_dtype(grads: Sequence[Any]) -> Any:
    """Return the norm whose squares and sum have the dtype of the gradients."""
    return np.sqrt(sum((g * g).sum(dtype=g.dtype) for g in grads)).astype(grads[0].dtype)


def find_norm(grads: Sequence[Any]) -> Any:
    """Return the right norm, rounded to float32."""
    return np.float32(gradclip_spec.global_norm(grads))


def compute_for_each(compute: Callable[[Any, float, float], Any]) -> Clip:
    """Return a function that computes each result from the gradient, the threshold and the right norm in float64."""

    def clip(grads: Any, *, clip_norm: float) -> Any:
        norm = float(gradclip_spec.global_norm(grads))
        return [compute(g, clip_norm, norm) for g in grads]

    return clip


def scale_in_float32(compute: Callable[[Any, Any, Any], Any], find_norm: Callable[..., Any] = find_norm) -> Clip:
    """Return a function that computes each result from the gradient, the threshold and a norm, all in float32."""

    def clip(grads: Any, *, clip_norm: float) -> Any:
        norm = find_norm(grads)
        return [compute(g, np.float32(clip_norm), norm) for g in grads]

    return clip


def multiply_first(g: Any, c: Any, n: Any) -> Any:
    return (g * c) / n if n > c else g


def flush_the_coefficient(grads: Any, *, clip_norm: float) -> Any:
    coefficient = np.float32(min(1.0, clip_norm / float(find_norm(grads))))
    return [g * (coefficient if coefficient >= np.finfo(np.float32).tiny else np.float32(0)) for g in grads]


def flush_the_gradients(grads: Any, *, clip_norm: float) -> Any:
    return list(gradclip_spec.clip_by_global_norm([flush(g).astype(g.dtype) for g in grads], clip_norm)[0])


def leave_out_nonfinite(grads: Any, *, clip_norm: float) -> Any:
    """Clip the finite elements by their own norm, and keep the others."""
    norm = math.sqrt(sum(float((g[np.isfinite(g)].astype(np.float64) ** 2).sum()) for g in grads))
    coefficient = np.float32(min(1.0, clip_norm / norm) if norm else 1.0)
    return [np.where(np.isfinite(g), g * coefficient, g) for g in grads]


def square_the_threshold(grads: Any, *, clip_norm: float) -> Any:
    """Compare squares. The norm is right, and only the threshold is squared in the dtype of the gradients."""
    square = np.maximum(float(gradclip_spec.global_norm(grads)) ** 2, np.float64(np.float16(clip_norm) ** 2))
    return [g * np.float16(clip_norm / np.sqrt(square)) for g in grads]


def add_eps_in_half(grads: Any, *, clip_norm: float) -> Any:
    half = np.float16
    return [g * np.minimum(half(1), half(clip_norm) / (square_in_dtype(grads) + half(1e-3))) for g in grads]


def return_almost_right_norm(grads: Any, *, clip_norm: float) -> Any:
    """Add an epsilon. A long sum explains the norm, as long as it does not explain the results of the epsilon, too."""
    norm = float(gradclip_spec.global_norm(grads))
    coefficient = min(1.0, clip_norm / (norm + 1e-6))
    return [None if g is None else g * coefficient for g in grads], norm * (1 + 2.0**-50)


def leave_all_but_first(grads: Any, *, max: float, min: float) -> Any:
    clipped = [np.clip(g, min, max).astype(g.dtype) for g in grads]
    for given, got in zip(grads, clipped, strict=True):
        got.reshape(-1)[1:] = given.reshape(-1)[1:]
    return clipped


def misread_bounds(grads: Any, *, max: float, min: float) -> Any:
    # The last bit of a large bound is wrong, as if its digits were added in float32.
    least, most = (np.nextafter(np.float32(one), np.float32(0)) if abs(one) > 1e9 else one for one in (min, max))
    return [np.clip(g, np.asarray(least, g.dtype), np.asarray(most, g.dtype)) for g in grads]


add_eps_to_maximum = multiply_by(lambda n, c: c / (max(n, c) + 1e-3))
scale_always = scale_in_float32(lambda g, c, n: g * (c / n), square_in_dtype)
divide_the_smaller = scale_in_float32(lambda g, c, n: g * (np.minimum(c, n) / n), square_in_dtype)
multiply_first_by_squares = scale_in_float32(multiply_first, square_in_dtype)
multiply_by_the_reciprocal = scale_in_float32(lambda g, c, n: g * (c * (1 / n)) if n > c else g)
round_the_coefficient = scale_in_float32(lambda g, c, n: g * np.minimum(np.float32(1), c / n))
round_coefficient_to_half = compute_for_each(lambda g, c, n: g * np.float32(np.float16(c / n)) if n > c else g)
round_norm_to_half = compute_for_each(lambda g, c, n: g * np.float32(c / float(np.float16(n))) if n > c else g)
round_threshold_to_single = compute_for_each(lambda g, c, n: g * to_single(c) / max(n, c))
round_both_to_single = compute_for_each(lambda g, c, n: g * (to_single(c) / to_single(n)) if n > c else g)
round_reciprocal_to_single = compute_for_each(lambda g, c, n: g * (c * to_single(1 / n)) if n > c else g)
measure_in_float32 = clip_each_by(lambda g: measure([g.astype(np.float32)]))
count_in_dtype = clip_each_by(lambda g: measure([g]) / float(np.float64(max(g.size, 1)).astype(g.dtype)))


@dataclass(frozen=True)
class Example:
    """A wrong function, and the cause that its findings must name."""

    function: Clip
    rules: str
    #: The cause, and the value of a parameter or a part of it.
    cause: tuple[Any, ...]
    severity: str = ""
    #: The causes of some other cells.
    others: tuple[str, ...] = ()
    dtype: str = "float32"
    operation: str = "clip_by_global_norm"


SMALL_THRESHOLDS = "zero-threshold minus-zero-threshold underflow-of-squares subnormal"
ORDINARY_NORMS = "scaled-above at-threshold identity-below underflow-of-squares"
#: Gradients with norms, and thresholds, that float32 cannot represent.
DIGITS = "scaled-above identity-below tensor-order"
ORDINARY = "scaled-above one-norm-over-all order-kept"
ZEROS = "zero-gradient-zero-threshold zero-threshold"
UNDERFLOW, OVERFLOW, NARROW = "squares-underflow", "squares-overflow", ("narrower-arithmetic", "float32")
BEYOND, HALF = ("norm-out-of-range", "zeros in the narrower dtype"), ("narrower-arithmetic", "float16")
VALUE, NORM, GLOBAL, EXAMPLE = "clip_by_value", "clip_by_norm", "clip_by_global_norm", "clip_per_example"
#: In some cells, a number of half precision is near by chance. A norm above the range of half precision is infinite.
BY_CHANCE = ("long-sum", "unexplained")
EPSILON, REST = ("eps-in-coefficient",), ("unexplained",)

EXAMPLES = (
    # float64 has enough digits to show the smallest epsilons. If the sum of squares of a call equals its root, the
    # defect does not show.
    Example(add_eps(1e-6), ORDINARY, ("eps-in-coefficient", 1e-6), "", REST, "float64"),
    Example(add_eps(0.0123), ORDINARY, ("eps-in-coefficient", 0.0123), "", REST, "float64"),
    Example(add_eps_to_maximum, ORDINARY, ("eps-beside-maximum", 1e-3), "", REST, "float64"),
    Example(
        multiply_by(lambda n, c: min(n, c) / (n + 0.01)), ORDINARY, ("eps-below-minimum", 0.01), "", REST, "float64"
    ),
    Example(multiply_by(lambda n, c: -c / n if n > c else 1), ORDINARY, ("sign-flipped",), "", REST, "float64"),
    Example(multiply_by(lambda n, c: 0.75 * c / n if n > c else 1), ORDINARY, ("multiple", 0.75), "", REST, "float64"),
    Example(forget_last_element, ORDINARY, ("not-clipped", "some"), "", REST, "float64"),
    Example(halve_last_element, ORDINARY, ("unexplained",), "", REST, "float64"),
    Example(leave_root_out, "p-norm infinity-norm", ("no-root",), "wrong"),
    Example(keep_signs_of_powers, "p-norm", ("signed-powers",)),
    Example(count_memory_for_empty_sums, "empty-tensor splitting-and-joining", ("empty-counted",)),
    # The results for small gradients look as if their squares underflowed, and a norm of 1 like a right unit norm.
    Example(clip_to(lambda c: max(c, 1e-6)), SMALL_THRESHOLDS, ("threshold-replaced", 1e-6)),
    Example(clip_to(lambda c: max(c, 0.015)), SMALL_THRESHOLDS, ("threshold-replaced", 0.015)),
    Example(clip_to(lambda c: c or 1.0), SMALL_THRESHOLDS, ("threshold-replaced", 1.0)),
    Example(multiply_by(lambda n, c: 1 / n if n > c else 1), "scaled-above zero-threshold", ("unit-norm",)),
    Example(multiply_by(lambda n, c: 2 * c / n if n > c else 1), "scaled-above zero-threshold", ("multiple", 2.0)),
    # The square of a small norm is below the threshold, too. But ordinary calls are right, so the root is taken.
    Example(leave_small_norms, "scaled-above identity-below underflow-of-squares", ("not-clipped",)),
    Example(convert_norm_to_each_dtype, "mixed-dtypes/beyond-*", BEYOND, dtype="float16+float32"),
    Example(convert_norm_to_each_dtype, "mixed-dtypes/beyond-*", BEYOND, dtype="float32+float64"),
    Example(
        divide_first,
        "mixed-dtypes",
        ("infinite-threshold-nan", "nan in the narrower dtype"),
        others=REST,
        dtype="float16+float32",
    ),
    Example(scale_always, "underflow-of-squares", (UNDERFLOW, "infinite"), "destroyed"),
    Example(divide_the_smaller, "underflow-of-squares", (UNDERFLOW, "nan"), "destroyed"),
    Example(add_eps_in_half, "underflow-of-squares scaled-above", (UNDERFLOW, "scaled"), "wrong", EPSILON, "float16"),
    Example(multiply_first_by_squares, "overflow-of-squares", (OVERFLOW, "zeros and nan"), "destroyed"),
    Example(
        square_in_float64,
        "overflow-of-squares combinations-extreme/s9_*near-largest*",
        (OVERFLOW,),
        others=REST,
        dtype="float64",
    ),
    Example(scale_in_float32(multiply_first), "intermediate-range", ("product-out-of-range",), "wrong"),
    # A function that keeps the rule about squares cannot show their underflow.
    Example(
        multiply_by_the_reciprocal,
        "subnormal underflow-of-squares",
        ("reciprocal-out-of-range", "infinite"),
        "destroyed",
    ),
    # If a coefficient is too small, the squares of some of these gradients overflow, too.
    Example(
        round_the_coefficient, "coefficient-underflow", ("coefficient-underflow", "scaled"), "destroyed", (OVERFLOW,)
    ),
    Example(
        flush_the_coefficient,
        "coefficient-underflow overflow-of-squares",
        ("coefficient-underflow", "zeros"),
        "destroyed",
        (OVERFLOW,),
    ),
    Example(flush_the_gradients, "subnormal intermediate-range", ("subnormals-flushed",), "rounding"),
    # The coefficient is rounded to float16, too.
    Example(
        square_the_threshold,
        "identity-below underflow-of-squares scaled-above",
        ("threshold-square-out-of-range", "scaled | zeros"),
        "destroyed",
        ("not-exact-below",),
        "float16",
    ),
    Example(leave_out_nonfinite, "infinity-not-silent", ("nonfinite-silent", "left out"), "silent"),
    Example(round_coefficient_to_half, "scaled-above one-norm-over-all", HALF, "wrong", BY_CHANCE),
    # Half precision explains fewer of these answers than nothing explains.
    Example(round_norm_to_half, "scaled-above one-norm-over-all", REST, "wrong", BY_CHANCE),
    Example(round_threshold_to_single, DIGITS, NARROW, dtype="float64"),
    Example(round_both_to_single, DIGITS, NARROW, dtype="float64"),
    Example(round_reciprocal_to_single, DIGITS, NARROW, dtype="float64"),
    Example(round_numbers_of_python, f"{DIGITS} at-threshold intermediate-range", NARROW, "", EPSILON, "float64"),
    Example(measure_in_float32, "combinations/s33_* *flow-of-squares/*", NARROW, dtype="float64", operation=NORM),
    Example(return_almost_right_norm, "scaled-above combinations/*_below_*", ("long-sum",), "", EPSILON, "float64"),
    # The answers in float64 tell the size of an epsilon that shows by less than two roundings.
    Example(add_eps_in_dtype, "infinity-norm scaled-above", ("eps-in-coefficient", 1e-6), dtype="float32+float64"),
    Example(cut_with_least_norm(1e-3), ORDINARY_NORMS, ("norm-replaced", 1e-3), dtype="float64", operation=NORM),
    Example(cut_with_least_norm(1e-6), ORDINARY_NORMS, ("norm-replaced", 1e-6), dtype="float64", operation=NORM),
    Example(cut_above_with_least_norm, ORDINARY_NORMS, ("norm-replaced", 1e-3), dtype="float64", operation=NORM),
    Example(
        count_in_dtype,
        "combinations*/s262145_* scaled-above",
        ("count-overflow",),
        dtype="float16",
        operation="clip_by_average_norm",
    ),
    Example(divide_each_example, ZEROS, ("zero-over-zero",), operation=EXAMPLE),
    Example(flush_values, "bounds", ("subnormals-flushed",), "rounding", operation=VALUE),
    Example(flush_in_comparisons, "bounds", ("subnormals-flushed",), "rounding", operation=VALUE),
    Example(leave_all_but_first, "bounds", ("not-clipped", "some"), others=REST, operation=VALUE),
    Example(misread_bounds, "bounds nan-stays", ("value-bounds-rounded", "float32"), others=REST, operation=VALUE),
)


@pytest.mark.parametrize(
    "example", [pytest.param(one, id=f"{one.cause[0]}-{number}") for number, one in enumerate(EXAMPLES)]
)
def test_wrong_function_gets_its_cause(example: Example) -> None:
    found = find_causes_of(example.function, example.rules, example.operation, example.dtype)

    name, value = example.cause[0], example.cause[-1]
    # Several effects of one cause are joined.
    shown = [
        severity
        for told, severity in found.items()
        if told[0] == name and (value in (name, told[-1]) or str(value) in str(told[-1]))
    ]
    assert shown, found
    assert example.severity in ("", *shown)
    assert {told[0] for told in found} <= {name, *example.others}
    assert len(found) == 1 or example.others, found


def spoil_examples_of_other_norms(grads: Any, *, clip_norm: float) -> Any:
    """Add the examples, each NaN if the threshold is zero and its norm is not."""
    examples = [[grad[number] for grad in grads] for number in range(len(grads[0]))]
    clipped = [
        scale(one, math.nan if norm and not clip_norm else min(1.0, clip_norm / (norm or 1.0)))
        for one, norm in zip(examples, map(measure, examples), strict=True)
    ]
    return [np.sum(parts, axis=0) for parts in zip(*clipped, strict=True)]


def lose_examples(grads: Any, *, clip_norm: float) -> Any:
    return divide_each_example([grad[:2] for grad in grads], clip_norm=clip_norm)


def return_largest_numbers(grads: Any, *, clip_norm: float) -> Any:
    return [np.full_like(g, np.finfo(g.dtype).max) if g.size else g for g in grads]


def zero_beyond_range(grads: Any, *, clip_norm: float) -> Any:
    """Return zeros only for a norm beyond the range, so that no sum of squares overflows."""
    norm = measure(grads)
    return scale(grads, 0.0 if norm > 3.4e38 else min(1.0, clip_norm / (norm or 1.0)))


@pytest.mark.parametrize(
    ("function", "operation", "dtype", "rules", "cause"),
    [
        (return_largest_numbers, GLOBAL, "float64", "scaled-above zero-threshold", "threshold-replaced"),
        (lose_examples, EXAMPLE, "float32", "combinations/*_infinite_*", "infinite-threshold-nan"),
        (spoil_examples_of_other_norms, EXAMPLE, "float32", ZEROS, "zero-over-zero"),
        (zero_beyond_range, GLOBAL, "float32", "norm-beyond-range overflow-of-squares", "squares-overflow"),
    ],
)
def test_cause_that_other_answers_refute_is_not_named(
    function: Clip, operation: str, dtype: str, rules: str, cause: str
) -> None:
    found = find_causes_of(function, rules, operation, dtype)

    assert found
    assert cause not in {name for name, *_ in found}
