"""Make cases of relations between two calls, or between a result and its input. They need no exact numbers.

The numbers look random and have all the digits of their dtype, so that every operation rounds. Each case comes twice:
with the norm well above the threshold, and so near to it that a rounding error decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from gradclip_adapters.contract import Array, Gradient

from ...oracle.arrays import decode
from ...oracle.formats import FORMATS, decode_doubles, round_to
from ...oracle.integers import compute_norm
from ..build import DTYPES, Maker, list_makers
from ..model import Case, expect

#: Relations between two calls. Every operation has these: the rule, the relation, and the features it needs.
RELATED = (
    ("twice-is-once", expect("metamorphic", relation="twice"), ()),
    ("tensor-order", expect("metamorphic", relation="reordered"), ()),
    ("zeros-added", expect("metamorphic", relation="zeros-added"), ()),
    ("excluded-added", expect("metamorphic", relation="excluded-added"), ("excludes",)),
    ("none-added", expect("metamorphic", relation="none-added"), ("none_grads",)),
)

#: Exponents of two. Scaling by these powers keeps every intermediate result in the normal range.
EXPONENTS = {"up-by-four": 2, "down-by-eight": -3}


def make_cases() -> Iterator[Case]:
    """Yield all cases of this theme."""
    for dtype in DTYPES:
        tensors = [make_scattered(count, dtype, start) for count, start in ((7, 1), (12, 40), (1, 90))]
        for make in list_makers(dtype):
            for variant, threshold in _choose_thresholds(make, tensors).items():
                yield from _make_two_calls(make, variant, tensors, threshold)
                yield from _make_one_call(make, variant, tensors, threshold)


def _make_two_calls(make: Maker, variant: str, tensors: list[Gradient], threshold: float) -> Iterator[Case]:
    for rule, relation, needs in RELATED:
        yield make.case(rule, variant, tensors, threshold, relation, needs)
    if not make.operation.is_by_norm or make.operation.is_global:
        # If each gradient has a norm of its own, each part has another one.
        yield make.case("splitting-and-joining", variant, tensors, threshold, expect("metamorphic", relation="split"))
    for name, exponent in EXPONENTS.items():
        scaled = expect("metamorphic", relation="scaled", exponent=exponent)
        yield make.case("power-of-two-scaling", f"{variant}-{name}", tensors, threshold, scaled)


def _make_one_call(make: Maker, variant: str, tensors: list[Gradient], threshold: float) -> Iterator[Case]:
    with_zeros = [*tensors, make.tensor([0.0, -0.0])]
    yield make.case("signs-kept", variant, with_zeros, threshold, expect("metamorphic", relation="signs"))
    if make.operation.is_by_norm:
        yield make.case("direction-kept", variant, with_zeros, threshold, expect("metamorphic", relation="direction"))
        yield make.case("norm-bounded", variant, tensors, threshold, expect("metamorphic", relation="bounded"))


def _choose_thresholds(make: Maker, tensors: list[Gradient]) -> dict[str, float]:
    """Return a threshold well below the norm, and the number of the dtype that is nearest to the norm."""
    clipped = {"clipped": 1.25}
    if not make.operation.is_by_norm:
        return clipped
    counted = tensors if make.operation.is_global else tensors[:1]
    exact = compute_norm([decode(g.array.data, make.dtype) for g in counted if g.array is not None]).middle
    return {**clipped, "at-the-norm": float(_round(exact, make.dtype))}


def make_scattered(count: int, dtype: str, start: int) -> Gradient:
    """Return numbers between -4 and 4 with all digits of the dtype: squares modulo a power of two, always the same."""
    values = [Fraction((k * k * 6_074_001_000_003) % (1 << 43), 1 << 40) - 4 for k in range(start, start + count)]
    bits = [round_to(value, FORMATS[dtype]) for value in values]
    data = b"".join(each.to_bytes(FORMATS[dtype].width // 8, "little") for each in bits)
    return Gradient("", Array(dtype, (count,), data))


def _round(value: Fraction, dtype: str) -> float:
    form = FORMATS[dtype]
    return float(decode_doubles(round_to(value, form).to_bytes(form.width // 8, "little"), dtype)[0])
