"""Define right functions that are written differently from the reference. The suite must accept all of them.

The specification says what is right. A function that lacks an ability (norms of other orders, `error_if_nonfinite`) has
no parameter for it, so no case asks for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from generated.facts import OPERATIONS
from generated.functions import GeneratedFunction
from generated.judging import MANY_ROWS

from gradclip_conformance.sampler.draw import ROWS

from .steps import EVERY, Array, Gradients, multiply_by_power_of_two

#: A function that returns the norm over all elements of some tensors.
Norm = Callable[[Sequence[Array]], float]
#: A function that takes a gradient, the threshold and the norm, and returns the result.
Scaling = Callable[[Array, float, float], Array]
#: A function that takes a gradient and both bounds, and returns the result.
Limit = Callable[[Array, float, float], Array]


@dataclass(frozen=True)
class Right:
    """A function without a defect."""

    name: str
    function: Callable[..., Any]
    operation: str
    in_place: bool | None = None
    #: Whether the error of its norm grows with the number of elements. Then a result for large tensors is inaccurate,
    #: but not wrong.
    grows: bool = False
    #: The number of rows that it is asked.
    rows: int = ROWS


# Norms. No square leaves the range, no sum is kept in half precision, and a norm that can be exact is exact: at the
# threshold, only one answer is right.


def _flatten(tensors: Sequence[Array]) -> Array:
    """Return all elements in float64, which holds the values of every dtype."""
    return np.concatenate([np.zeros(0), *(np.asarray(tensor, np.float64).reshape(-1) for tensor in tensors)])


def _guard(tensors: Sequence[Array], compute_finite: Callable[[Array], float]) -> float:
    """Return NaN or infinity if an element is NaN or infinite; compute the norm only for finite values."""
    values = _flatten(tensors)
    if np.isnan(values).any():
        return math.nan
    return compute_finite(values) if np.isfinite(values).all() else math.inf


def long_double(tensors: Sequence[Array]) -> float:
    """Square in the platform's widest format, whose exponent range holds the squares of every float64."""
    return float(np.sqrt(sum((np.sum(np.square(t.astype(np.longdouble))) for t in tensors), np.longdouble(0))))


def _find_exponent(values: Array) -> int:
    """Return the exponent of the largest magnitude. Scaled by it, no square leaves the range."""
    return math.frexp(float(np.max(np.abs(values), initial=0.0)))[1]


def dot_product(tensors: Sequence[Array]) -> float:
    """Call the library's product on scaled elements."""

    def compute_finite(values: Array) -> float:
        exponent = _find_exponent(values)
        unit = np.ldexp(values, -exponent)
        return multiply_by_power_of_two(math.sqrt(float(unit @ unit)), exponent)

    return _guard(tensors, compute_finite)


def library_norm_of_each(tensors: Sequence[Array]) -> float:
    """Take the library's norm of each scaled tensor, and the norm of these norms."""

    def compute_finite(values: Array) -> float:
        exponent = _find_exponent(values)
        squares = [np.linalg.norm(np.ldexp(np.asarray(t, np.longdouble), -exponent)) ** 2 for t in tensors]
        return multiply_by_power_of_two(float(np.sqrt(sum(squares, np.longdouble(0)))), exponent)

    return _guard(tensors, compute_finite)


def exact_sums_of_chunks(tensors: Sequence[Array]) -> float:
    """Add the squares of each chunk of scaled elements, and the sums of the chunks, without rounding."""

    def compute_finite(values: Array) -> float:
        exponent, chunk = _find_exponent(values), 65_536
        squares = np.square(np.ldexp(values, -exponent))
        sums = [math.fsum(squares[start : start + chunk]) for start in range(0, len(squares), chunk)]
        return multiply_by_power_of_two(math.sqrt(math.fsum(sums)), exponent)

    return _guard(tensors, compute_finite)


def divided_by_largest(tensors: Sequence[Array]) -> float:
    """Divide by the largest magnitude, in the platform's widest format."""

    def compute_finite(values: Array) -> float:
        largest = np.max(np.abs(values), initial=0.0).astype(np.longdouble)
        return float(np.sqrt(np.sum(np.square(values / (largest or 1)))) * largest)

    return _guard(tensors, compute_finite)


def infinity_before_nan(tensors: Sequence[Array]) -> float:
    """Call `math.hypot` without a guard: infinity wins over NaN, as IEEE 754 says."""
    return math.hypot(*_flatten(tensors).tolist())


NORMS = (
    long_double,
    dot_product,
    library_norm_of_each,
    infinity_before_nan,
    exact_sums_of_chunks,
    divided_by_largest,
)
#: Norms with running sums: the library's products and norms.
GROWING = (dot_product, library_norm_of_each)


# Scalings.


def branch(grad: Array, clip_norm: float, norm: float) -> Array:
    """Return the gradient itself if its norm is at most the threshold; otherwise scale it, also if the norm is NaN."""
    if norm <= clip_norm:
        return grad
    wide = grad.astype(np.longdouble)
    return np.asarray(wide * np.longdouble(clip_norm) / np.longdouble(norm)).astype(grad.dtype)


def least_coefficient(grad: Array, clip_norm: float, norm: float) -> Array:
    """Multiply by the lesser of 1 and clip_norm / norm, with a guard against a zero norm."""
    quotient = np.longdouble(clip_norm) / np.longdouble(norm) if norm else np.longdouble(1)
    coefficient = np.minimum(np.longdouble(1), quotient)
    return np.asarray(grad.astype(np.longdouble) * coefficient).astype(grad.dtype)


def larger_divisor(grad: Array, clip_norm: float, norm: float) -> Array:
    """Multiply by clip_norm and divide by max(norm, clip_norm), with a guard against zero and infinity."""
    divisor = float(np.maximum(norm, clip_norm))
    if divisor == 0 or clip_norm == math.inf:
        return grad
    return np.asarray(grad.astype(np.longdouble) * np.longdouble(clip_norm) / np.longdouble(divisor)).astype(grad.dtype)


def where_form(grad: Array, clip_norm: float, norm: float) -> Array:
    divisor = np.longdouble(norm if norm else 1.0)
    finite = np.longdouble(clip_norm if math.isfinite(clip_norm) else 0.0)
    scaled = grad.astype(np.longdouble) * finite / divisor
    return np.where(norm <= clip_norm, grad, scaled.astype(grad.dtype))


def written_in_place(grad: Array, clip_norm: float, norm: float) -> Array:
    if not norm <= clip_norm:
        grad[...] = grad.astype(np.longdouble) * np.longdouble(clip_norm) / np.longdouble(norm)
    return grad


def reciprocal(grad: Array, clip_norm: float, norm: float) -> Array:
    if norm <= clip_norm:
        return grad
    coefficient = np.longdouble(clip_norm) * (1 / np.longdouble(norm))
    return np.asarray(grad.astype(np.longdouble) * coefficient).astype(grad.dtype)


SCALINGS: tuple[Scaling, ...] = (branch, least_coefficient, larger_divisor, where_form, written_in_place, reciprocal)


# Limits of elements. NaN stays NaN, zeros keep their signs, and the dtype stays.


def maximum_of_minimum(grad: Array, low: float, high: float) -> Array:
    return np.asarray(np.maximum(np.minimum(grad, grad.dtype.type(high)), grad.dtype.type(low)))


def through_float64(grad: Array, low: float, high: float) -> Array:
    return np.clip(grad.astype(np.float64), low, high).astype(grad.dtype)


def by_where(grad: Array, low: float, high: float) -> Array:
    kind = grad.dtype.type
    return np.where(grad > kind(high), kind(high), np.where(grad < kind(low), kind(low), grad))


def in_place_by_mask(grad: Array, low: float, high: float) -> Array:
    np.copyto(grad, grad.dtype.type(high), where=grad > high)
    np.copyto(grad, grad.dtype.type(low), where=grad < low)
    return grad


LIMITS: tuple[Limit, ...] = (maximum_of_minimum, through_float64, by_where, in_place_by_mask)


# Functions.


def read_threshold(clip_norm: Any) -> float:
    """Return a threshold as a float, whatever kind of number it is; refuse a negative one."""
    if clip_norm < 0:
        message = f"clip_norm is {clip_norm}, but must not be negative"
        raise ValueError(message)
    return float(clip_norm)


def make_global_norm_function(norm: Norm, scale: Scaling) -> Callable[..., Any]:
    """Return a clip by global norm, which also returns the norm."""

    def clip(
        grads: Gradients, *, clip_norm: float, need_clip: Sequence[bool], error_if_nonfinite: bool = False
    ) -> tuple[Gradients, float]:
        clip_norm = read_threshold(clip_norm)
        chosen = [grad is not None and flag for grad, flag in zip(grads, need_clip, strict=True)]
        total = norm([grad for grad, flag in zip(grads, chosen, strict=True) if flag])
        if error_if_nonfinite and not math.isfinite(total):
            message = f"the total norm is {total}"
            raise RuntimeError(message)
        results, scaled = list(grads), set[int]()
        for place, grad in enumerate(grads):
            if chosen[place] and id(grad) not in scaled:
                results[place] = scale(grad, clip_norm, total)
                # A tensor that occurs twice in the list must be written only once.
                scaled |= {id(grad)} if results[place] is grad else set()
        return results, total

    return clip


def make_own_norm_function(norm: Norm, scale: Scaling) -> Callable[..., Any]:
    def clip(grads: Gradients, *, clip_norm: float, need_clip: Sequence[bool]) -> Gradients:
        clip_norm = read_threshold(clip_norm)
        results = []
        for grad, flag in zip(grads, need_clip, strict=True):
            results.append(grad if grad is None or not flag else scale(grad, clip_norm, norm([grad])))
        return results

    return clip


def make_value_function(limit: Limit) -> Callable[..., Any]:
    def clip(grads: Gradients, *, max: float, need_clip: Sequence[bool], min: float | None = None) -> Gradients:
        low = -max if min is None else min
        pairs = zip(grads, need_clip, strict=True)
        return [limit(grad, low, max) if flag and grad is not None else grad for grad, flag in pairs]

    return clip


def _clip_by_p_norm(
    grads: Gradients,
    *,
    clip_norm: float,
    need_clip: Sequence[bool],
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
) -> tuple[Gradients, Any]:
    """Clip by the norm of any order, computed in long double over one buffer, and return it in long double."""
    clip_norm = read_threshold(clip_norm)
    chosen = [i for i, grad in enumerate(grads) if need_clip[i] and grad is not None]
    buffer = np.concatenate([np.zeros(0, np.longdouble), *(grads[i].astype(np.longdouble).ravel() for i in chosen)])
    largest = np.max(np.abs(buffer), initial=np.longdouble(0))
    total = largest
    if math.isfinite(largest) and largest > 0 and norm_type != math.inf:
        # If the sum of powers is exact in this format and has an exact root, use this root.
        powers = np.sum(np.abs(buffer) ** np.longdouble(norm_type))
        total = np.sqrt(powers) if norm_type == 2 else powers ** (1 / np.longdouble(norm_type))
    total = np.longdouble(np.float64(total))
    if error_if_nonfinite and not np.isfinite(total):
        message = f"the total norm is {total}"
        raise FloatingPointError(message)
    if total <= clip_norm:
        return grads, total
    buffer = buffer * np.longdouble(clip_norm) / np.longdouble(total)
    results, start = list(grads), 0
    for i in chosen:
        part = buffer[start : start + grads[i].size]
        results[i], start = part.reshape(grads[i].shape).astype(grads[i].dtype), start + grads[i].size
    return results, total


def _clip_finite_norms_only(
    grads: Gradients, *, clip_norm: float, need_clip: Sequence[bool]
) -> tuple[Gradients, float]:
    """Clip, and raise for every norm that is not finite, because the function has no option for that."""
    clip = make_global_norm_function(long_double, branch)
    results, total = clip(grads, clip_norm=clip_norm, need_clip=need_clip, error_if_nonfinite=True)
    return list(results), total


def _make_average_function(norm: Norm, scale: Scaling, power: float, *, divides: bool) -> Callable[..., Any]:
    """Return a clip by an average, which divides the norm or multiplies the threshold."""

    def clip(grads: Gradients, *, clip_norm: float, need_clip: Sequence[bool]) -> Gradients:
        clip_norm = read_threshold(clip_norm)
        results = list(grads)
        for i, grad in enumerate(grads):
            if grad is None or not need_clip[i]:
                continue
            root, size = max(grad.size, 1) ** power, norm([grad])
            results[i] = scale(grad, clip_norm, size / root) if divides else scale(grad, clip_norm * root, size)
        return results

    return clip


def _clip_all_examples_at_once(grads: Gradients, *, clip_norm: float, layers: str | None = None) -> Gradients:
    """Clip all examples in one go: a matrix holds the coefficient of each gradient of each example."""
    clip_norm = read_threshold(clip_norm)
    matrices = [grad.astype(np.longdouble).reshape(len(grad), -1) for grad in grads]
    squares = np.stack([np.sum(np.square(one), axis=1) for one in matrices])
    sizes = np.array([one.shape[1] if layers == "by size" else 1 for one in matrices], np.longdouble)
    limits = np.longdouble(clip_norm) * (np.sqrt(sizes / sizes.sum())[:, None] if layers else 1)
    norms = np.sqrt(squares if layers else np.broadcast_to(squares.sum(axis=0), squares.shape))
    factors = np.divide(limits, norms, out=np.ones_like(norms), where=~(norms <= limits))
    sums = [np.sum(one * factor[:, None], axis=0) for one, factor in zip(matrices, factors, strict=True)]
    return [np.asarray(one.reshape(grad.shape[1:]).astype(grad.dtype)) for one, grad in zip(sums, grads, strict=True)]


def _clip_all_units_at_once(
    grads: Gradients, *, clip_factor: float, parameters: Gradients, need_clip: Sequence[bool], eps: float = 1e-3
) -> Gradients:
    """Clip all units of a tensor in one computation, in long double."""
    clip_factor = read_threshold(clip_factor)
    results = list(grads)
    for i, grad in enumerate(grads):
        if grad is None or not need_clip[i]:
            continue
        axes = tuple(range(1, grad.ndim)) or None
        norms, weights = (
            np.sqrt(np.sum(np.square(one.astype(np.longdouble)), axis=axes, keepdims=True))
            for one in (grad, parameters[i])
        )
        limits = np.longdouble(clip_factor) * np.maximum(weights, eps)
        factors = np.divide(limits, norms, out=np.ones_like(norms), where=~(norms <= limits))
        results[i] = np.asarray(grad * factors).astype(grad.dtype).reshape(grad.shape)
    return results


def _list_right() -> Iterator[Right]:
    for number, norm in enumerate(NORMS):
        # Each norm gets two partners, so that each way of scaling meets more than one norm.
        for function, operation, partner in (
            (make_own_norm_function, "clip_by_norm", number),
            (make_global_norm_function, "clip_by_global_norm", 5 * number + 1),
        ):
            scale = SCALINGS[partner % len(SCALINGS)]
            in_place = True if scale is written_in_place else None
            name = f"{norm.__name__}-{scale.__name__}"
            yield Right(name, function(norm, scale), operation, in_place, norm in GROWING)
    for limit in LIMITS:
        in_place = True if limit is in_place_by_mask else None
        yield Right(limit.__name__, make_value_function(limit), "clip_by_value", in_place)
    yield Right("p_norms_in_long_double", _clip_by_p_norm, "clip_by_global_norm")
    yield Right("finite_norms_only", _clip_finite_norms_only, "clip_by_global_norm")
    for base in EVERY:
        yield Right(f"steps-{base.short}", base(), base.operation, False)
    for operation, power in (("clip_by_block_rms", 0.5), ("clip_by_average_norm", 1.0)):
        quotient = _make_average_function(long_double, least_coefficient, power, divides=True)
        yield Right("long_double-least_coefficient-quotient", quotient, operation)
        product = _make_average_function(divided_by_largest, larger_divisor, power, divides=False)
        yield Right("divided_by_largest-larger_divisor-product", product, operation)
    yield Right("all_examples_at_once", _clip_all_examples_at_once, "clip_per_example")
    yield Right("all_units_at_once", _clip_all_units_at_once, "clip_unitwise")
    for operation in OPERATIONS:
        for in_place in (False, True):
            name = "generated-in_place" if in_place else "generated"
            generated = GeneratedFunction(operation, in_place).function
            # Of so many rows, one shows the error of its sums in float64.
            yield Right(name, generated, operation, in_place, grows=True, rows=MANY_ROWS)


RIGHT = tuple(_list_right())
