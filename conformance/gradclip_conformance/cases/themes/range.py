"""Make cases at the ends of a dtype's range. The norm is representable, but its square or the coefficient is not."""

from __future__ import annotations

from collections.abc import Iterator

from ...oracle.formats import FORMATS
from ..build import DTYPES, NORM_OPERATIONS, Maker, choose_orders, keep_all, list_digits, list_makers
from ..model import Case, expect

#: The range of the intermediate results must be as wide as that of a wider dtype.
WIDE = expect("values", wide=True)
#: No coefficient of the dtype gives these values.
LEAVES_RANGE = expect("values", leaves_range=True)

#: 3, 4 and 5 times these powers of two are representable, but their squares overflow, or underflow to zero.
HUGE = {"float16": 2.0**7, "bfloat16": 2.0**65, "float32": 2.0**65, "float64": 2.0**600}
TINY = {"float16": 2.0**-14, "bfloat16": 2.0**-80, "float32": 2.0**-80, "float64": 2.0**-600}
#: 3, 4 and 5 times these powers of two have cubes that overflow, and squares in the range.
HUGE_CUBES = {"float16": 2.0**4, "bfloat16": 2.0**43, "float32": 2.0**43, "float64": 2.0**343}
TINY_CUBES = {"float16": 2.0**-11, "bfloat16": 2.0**-60, "float32": 2.0**-60, "float64": 2.0**-370}
#: Orders whose powers of the numbers above leave the range of float64, too.
HIGHER = choose_orders("two-and-a-half", "four", "six")
#: Powers of two whose squares are in the range. The sum of sixteen such squares is not.
HUGE_TOGETHER = {"float16": 2.0**7, "bfloat16": 2.0**63, "float32": 2.0**63, "float64": 2.0**511}
#: Powers of two. The square of seven times such a power is 1.53 or 0.77 times the smallest subnormal number. So no
#: square becomes zero, but each has an error of 30 %. bfloat16 has float32's power, because libraries square bfloat16
#: in float32.
TINY_TOGETHER = {"float16": 2.0**-15, "bfloat16": 2.0**-77, "float32": 2.0**-77, "float64": 2.0**-540}
#: Pairs of numbers. The second divided by the first overflows, and so does the square of the second.
UNLIKE = {
    "float16": (2.0**-12, 2.0**14),
    "bfloat16": (2.0**-60, 2.0**70),
    "float32": (2.0**-60, 2.0**70),
    "float64": (2.0**-500, 2.0**600),
}
#: A large element and a small one. The small element divided by the norm underflows, but half of it does not.
SMALL_QUOTIENT = {
    "float16": (2.0**6, 1.75 * 2.0**-13),
    "bfloat16": (2.0**60, 1.75 * 2.0**-100),
    "float32": (2.0**60, 1.75 * 2.0**-100),
    "float64": (2.0**60, 1.75 * 2.0**-1010),
}
#: A large element and a small one. The product of the small element and the threshold underflows, but the result does
#: not. float16 is missing, because its squares would underflow and change the norm.
SMALL_PRODUCT = {
    "bfloat16": (2.0**-48, 1.75 * 2.0**-100),
    "float32": (2.0**-48, 1.75 * 2.0**-100),
    "float64": (2.0**-473, 1.75 * 2.0**-600),
}
#: A threshold and a size of gradients. Their quotient underflows, but the result does not.
FAR_APART = {
    "float16": (2.0**-11, 2.0**13),
    "bfloat16": (2.0**-100, 2.0**100),
    "float32": (2.0**-100, 2.0**100),
    "float64": (2.0**-900, 2.0**900),
}
#: A large size and a small one. The squares of both are in the range, and that of their quotient is not. The small size
#: is above 1e-6, which some functions take for the least norm. In float64, there are no such sizes.
UNLIKE_SIZES = {"bfloat16": (2.0**61, 2.0**-15), "float32": (2.0**61, 2.0**-15)}
#: A threshold and a size of gradients. Their quotient is 1.6 times the smallest subnormal number, and rounds to twice
#: that number.
HARDLY_APART = {
    "float16": (2.0**-9, 2.0**12),
    "bfloat16": (2.0**-70, 2.0**60),
    "float32": (2.0**-86, 2.0**60),
    "float64": (2.0**-571, 2.0**500),
}


def list_largest(dtype: str) -> list[float]:
    """Return four numbers whose norm is twice the largest number of the dtype."""
    largest = float(FORMATS[dtype].largest)
    return [largest, -largest, largest, largest]


def make_cases() -> Iterator[Case]:
    """Yield all cases of this theme."""
    for dtype in DTYPES:
        for make in list_makers(dtype, NORM_OPERATIONS):
            for rule, units, units_of_cubes in (
                ("overflow-of-squares", HUGE, HUGE_CUBES),
                ("underflow-of-squares", TINY, TINY_CUBES),
            ):
                unit, cube = units[dtype], units_of_cubes[dtype]
                triangle = make.tensor([3 * unit, 4 * unit])
                # In bfloat16, the root of such a power has no error bound.
                higher = HIGHER if dtype != "bfloat16" else {}
                yield from make.table(
                    rule,
                    ("three-four-five", triangle, unit),
                    # The norm of order 1 needs no squares.
                    ("norm-one", triangle, unit, {"norm_type": 1.0}),
                    ("norm-three", make.tensor([3 * cube, -4 * cube, 5 * cube]), 3 * cube, {"norm_type": 3.0}),
                    *((name, triangle, unit, {"norm_type": p}) for name, p in higher.items()),
                    expectation=WIDE,
                )
                if make.operation.is_global:
                    apart, returned = make.tensors([3 * unit], [4 * unit]), expect("returned-norm", wide=True)
                    yield from make.table(
                        rule,
                        ("two-tensors", apart, unit, WIDE),
                        ("returned-norm", apart, unit),
                        *((f"returned-{name}", apart, unit, {"norm_type": p}) for name, p in higher.items()),
                        expectation=returned,
                    )
            yield from _leave_range_together(make)
            yield from _leave_range_below(make)
            yield from _make_subnormal(make)
            yield from _leave_range_on_the_way(make)
            for name, (small, large) in (("far-apart", FAR_APART[dtype]), ("hardly-apart", HARDLY_APART[dtype])):
                distant = make.tensor([3 * large, 4 * large])
                yield make.case("coefficient-underflow", name, distant, small, LEAVES_RANGE)
            four, quarter = list_largest(dtype), float(FORMATS[dtype].largest) / 4
            yield make.case("norm-beyond-range", "twice-the-largest", make.tensor(four), quarter, LEAVES_RANGE)


def _leave_range_together(make: Maker) -> Iterator[Case]:
    """Make squares overflow only in their sum, or only in one of two tensors. Also make squares subnormal."""
    rule, unit, seven = "overflow-of-squares", HUGE_TOGETHER[make.dtype], 7 * TINY_TOGETHER[make.dtype]
    yield make.case(rule, "sum-alone", make.tensor([unit, -unit] * 8), 2 * unit, WIDE)
    if make.operation.is_global:
        small, large = UNLIKE[make.dtype]
        unlike = make.tensors([3 * small], [large])
        yield from make.table(
            rule,
            ("sum-of-tensors-alone", [make.tensor([unit])] * 16, 2 * unit),
            ("tiny-before-huge", unlike, large / 2),
            ("huge-before-tiny", unlike[::-1], large / 2),
            expectation=WIDE,
        )
    four = make.tensor([seven, -seven, seven, seven])
    yield make.case("underflow-of-squares", "subnormal-squares", four, seven, WIDE)


def _leave_range_below(make: Maker) -> Iterator[Case]:
    """Make squares, cubes or only their sum leave the range, for gradients whose norm is below the threshold."""
    dtype = make.dtype
    huge, tiny, together, seven = HUGE[dtype], TINY[dtype], HUGE_TOGETHER[dtype], 7 * TINY_TOGETHER[dtype]
    huge_cube, tiny_cube = HUGE_CUBES[dtype], TINY_CUBES[dtype]
    # The numbers lie between 8 and 16 and use every digit. The largest is far below the end of the range.
    digits = abs(list_digits(dtype)[7]) * 8
    of_order_3 = {"norm_type": 3.0}
    triangle, small = make.tensor([3 * huge, -4 * huge]), make.tensor([3 * tiny, 4 * tiny])
    yield from make.table(
        "overflow-of-squares",
        ("below", triangle, digits * huge),
        ("far-below", triangle, digits * 2 * huge),
        ("sum-alone-below", make.tensor([together, -together] * 8), digits * together),
        (
            "norm-three-below",
            make.tensor([3 * huge_cube, -4 * huge_cube, 5 * huge_cube]),
            digits * huge_cube,
            of_order_3,
        ),
        expectation=keep_all,
    )
    yield from make.table(
        "underflow-of-squares",
        ("below", small, digits * tiny),
        ("far-below", small, digits / 8),
        ("subnormal-squares-below", make.tensor([seven, -seven, seven, seven]), 4 * seven),
        (
            "norm-three-below",
            make.tensor([3 * tiny_cube, -4 * tiny_cube, 5 * tiny_cube]),
            digits * tiny_cube,
            of_order_3,
        ),
        expectation=keep_all,
    )
    if make.operation.is_global:
        little, large = UNLIKE[dtype]
        yield from make.table(
            "overflow-of-squares",
            ("two-tensors-below", make.tensors([3 * huge], [-4 * huge]), digits * huge),
            ("sum-of-tensors-alone-below", [make.tensor([together])] * 16, digits * together),
            ("tiny-beside-huge-below", make.tensors([little], [large]), 2 * large),
            expectation=keep_all,
        )
        apart = make.tensors([3 * tiny], [-4 * tiny])
        yield make.case("underflow-of-squares", "two-tensors-below", apart, digits * tiny, keep_all)


def _leave_range_on_the_way(make: Maker) -> Iterator[Case]:
    """Keep c / n within the range, and make other intermediate results leave it."""
    rule = "intermediate-range"
    for name, unlike in (("elements-far-apart", SMALL_QUOTIENT), ("small-products", SMALL_PRODUCT)):
        if make.dtype in unlike:
            large, little = unlike[make.dtype]
            yield make.case(rule, name, make.tensor([large, little, -little]), large / 2)
    if make.dtype == "float16":
        # The squares are the smallest numbers that float16 holds. The products with clip_norm are smaller.
        unit = 2.0**-12
        yield make.case(rule, "small", make.tensor([3 * unit, 4 * unit]), 2.5 * unit)


def _make_subnormal(make: Maker) -> Iterator[Case]:
    unit = float(FORMATS[make.dtype].smallest_subnormal)
    yield make.case("subnormal", "three-four-five", make.tensor([48 * unit, -64 * unit]), 40 * unit, WIDE)
