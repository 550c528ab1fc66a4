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
from ..model import Case, Expect, expect

#: Relations between two calls that hold for every operation: the rule, the relation, and the features that it needs.
RELATED = (
    ("twice-is-once", "twice", ()),
    ("tensor-order", "reordered", ()),
    ("zeros-added", "zeros-added", ()),
    ("excluded-added", "excluded-added", ("excludes",)),
    ("none-added", "none-added", ("none_grads",)),
)


def make_cases() -> Iterator[Case]:
    """Yield all cases of this theme."""
    for dtype in DTYPES:
        tensors = [make_scattered(count, dtype, start) for count, start in ((7, 1), (12, 40), (1, 90))]
        for make in list_makers(dtype):
            for variant, threshold in _choose_thresholds(make, tensors).items():
                yield from _relate(make, variant, tensors, threshold)


def _relate(make: Maker, variant: str, tensors: list[Gradient], threshold: float) -> Iterator[Case]:
    for rule, relation, needs in RELATED:
        yield make.case(rule, variant, tensors, threshold, _expect_relation(relation), needs)
    if not make.operation.is_by_norm or make.operation.is_global:
        # If each gradient has a norm of its own, each part has another one.
        yield make.case("splitting-and-joining", variant, tensors, threshold, _expect_relation("split"))
    with_zeros = [*tensors, make.tensor([0.0, -0.0])]
    yield from make.rows(
        # Scaling by these powers of two keeps every intermediate result in the normal range.
        (f"power-of-two-scaling/{variant}-up-by-four", tensors, threshold, _expect_relation("scaled", exponent=2)),
        (f"power-of-two-scaling/{variant}-down-by-eight", tensors, threshold, _expect_relation("scaled", exponent=-3)),
        (f"signs-kept/{variant}", with_zeros, threshold, _expect_relation("signs")),
    )
    if make.operation.is_by_norm:
        yield from make.rows(
            (f"direction-kept/{variant}", with_zeros, threshold, _expect_relation("direction")),
            (f"norm-bounded/{variant}", tensors, threshold, _expect_relation("bounded")),
        )


def _expect_relation(relation: str, **parameters: int) -> Expect:
    return expect("metamorphic", relation=relation, **parameters)


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
