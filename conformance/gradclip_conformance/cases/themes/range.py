"""Make cases at the ends of a dtype's range. The norm is representable, but its square or the coefficient is not."""

from __future__ import annotations

from collections.abc import Iterator

from gradclip_adapters.contract import Gradient

from ...oracle.formats import FORMATS
from ..build import DTYPES, NORM_OPERATIONS, list_digits, make_case, make_tensor
from ..model import Case, expect

__all__ = ["make_cases"]

#: 3, 4 and 5 times these powers of two are representable, but their squares overflow, or underflow to zero.
HUGE = {"float16": 2.0**7, "bfloat16": 2.0**65, "float32": 2.0**65, "float64": 2.0**600}
TINY = {"float16": 2.0**-14, "bfloat16": 2.0**-80, "float32": 2.0**-80, "float64": 2.0**-600}
#: 3, 4 and 5 times these powers of two have cubes that overflow, and squares in the range.
HUGE_CUBES = {"float16": 2.0**4, "bfloat16": 2.0**43, "float32": 2.0**43, "float64": 2.0**343}
TINY_CUBES = {"float16": 2.0**-11, "bfloat16": 2.0**-60, "float32": 2.0**-60, "float64": 2.0**-370}
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
#: A threshold and a size of gradients. Their quotient is 1.6 times the smallest subnormal number, and rounds to twice
#: that number.
HARDLY_APART = {
    "float16": (2.0**-9, 2.0**12),
    "bfloat16": (2.0**-70, 2.0**60),
    "float32": (2.0**-86, 2.0**60),
    "float64": (2.0**-571, 2.0**500),
}


def make_cases() -> Iterator[Case]:
    """Yield all cases of this theme."""
    for dtype in DTYPES:
        for operation in NORM_OPERATIONS:
            for rule, unit in ((f"{operation}.overflow-of-squares", HUGE), (f"{operation}.underflow-of-squares", TINY)):
                triangle, options = [make_tensor([3 * unit[dtype], 4 * unit[dtype]], dtype)], {"clip_norm": unit[dtype]}
                yield make_case(rule, "three-four-five", dtype, triangle, options, expect("values", wide=True))
                # The norm of order 1 needs no squares.
                yield make_case(
                    rule, "norm-one", dtype, triangle, {**options, "norm_type": 1.0}, expect("values", wide=True)
                )
                if operation == "global-norm":
                    apart = [make_tensor([3 * unit[dtype]], dtype), make_tensor([4 * unit[dtype]], dtype)]
                    yield make_case(rule, "two-tensors", dtype, apart, options, expect("values", wide=True))
                    returned = expect("returned-norm", wide=True)
                    yield make_case(rule, "returned-norm", dtype, apart, options, returned, ["returns_norm"])
            for rule, unit in (("overflow-of-squares", HUGE_CUBES), ("underflow-of-squares", TINY_CUBES)):
                three = [make_tensor([3 * unit[dtype], -4 * unit[dtype], 5 * unit[dtype]], dtype)]
                options = {"clip_norm": 3 * unit[dtype], "norm_type": 3.0}
                yield make_case(f"{operation}.{rule}", "norm-three", dtype, three, options, expect("values", wide=True))
            yield from _leave_range_together(operation, dtype)
            yield from _leave_range_below(operation, dtype)
            yield from _make_subnormal(operation, dtype)
            yield from _leave_range_on_the_way(operation, dtype)
            rule = f"{operation}.coefficient-underflow"
            for name, (small, large) in (("far-apart", FAR_APART[dtype]), ("hardly-apart", HARDLY_APART[dtype])):
                distant = [make_tensor([3 * large, 4 * large], dtype)]
                yield make_case(rule, name, dtype, distant, {"clip_norm": small}, expect("values", leaves_range=True))
            rule, largest = f"{operation}.norm-beyond-range", float(FORMATS[dtype].largest)
            four = [make_tensor([largest, -largest, largest, largest], dtype)]
            yield make_case(
                rule, "twice-the-largest", dtype, four, {"clip_norm": largest / 4}, expect("values", leaves_range=True)
            )


def _leave_range_together(operation: str, dtype: str) -> Iterator[Case]:
    """Make squares overflow only in their sum, or only in one of two tensors. Also make squares subnormal."""
    unit, exact = HUGE_TOGETHER[dtype], expect("values", wide=True)
    overflow, threshold = f"{operation}.overflow-of-squares", {"clip_norm": 2 * unit}
    yield make_case(overflow, "sum-alone", dtype, [make_tensor([unit, -unit] * 8, dtype)], threshold, exact)
    if operation == "global-norm":
        sixteen = [make_tensor([unit], dtype)] * 16
        yield make_case(overflow, "sum-of-tensors-alone", dtype, sixteen, threshold, exact)
        small, large = UNLIKE[dtype]
        unlike, options = [make_tensor([3 * small], dtype), make_tensor([large], dtype)], {"clip_norm": large / 2}
        yield make_case(overflow, "tiny-before-huge", dtype, unlike, options, exact)
        yield make_case(overflow, "huge-before-tiny", dtype, unlike[::-1], options, exact)
    seven = 7 * TINY_TOGETHER[dtype]
    rule, four = f"{operation}.underflow-of-squares", [make_tensor([seven, -seven, seven, seven], dtype)]
    yield make_case(rule, "subnormal-squares", dtype, four, {"clip_norm": seven}, exact)


def _leave_range_below(operation: str, dtype: str) -> Iterator[Case]:
    """Make squares, cubes or only their sum leave the range, for gradients whose norm is below the threshold."""
    overflow, underflow = f"{operation}.overflow-of-squares", f"{operation}.underflow-of-squares"
    huge, tiny, together, seven = HUGE[dtype], TINY[dtype], HUGE_TOGETHER[dtype], 7 * TINY_TOGETHER[dtype]
    # The numbers lie between 8 and 16 and use every digit. The largest is far below the end of the range.
    digits = abs(list_digits(dtype)[7]) * 8
    triangle, small = [make_tensor([3 * huge, -4 * huge], dtype)], [make_tensor([3 * tiny, 4 * tiny], dtype)]
    for rule, name, gradients, threshold in (
        (overflow, "below", triangle, digits * huge),
        (overflow, "far-below", triangle, digits * 2 * huge),
        (overflow, "sum-alone-below", [make_tensor([together, -together] * 8, dtype)], digits * together),
        (underflow, "below", small, digits * tiny),
        (underflow, "far-below", small, digits / 8),
        (underflow, "subnormal-squares-below", [make_tensor([seven, -seven, seven, seven], dtype)], 4 * seven),
    ):
        yield _make_kept(rule, name, dtype, gradients, {"clip_norm": threshold})
    for rule, units in ((overflow, HUGE_CUBES), (underflow, TINY_CUBES)):
        cubes = [make_tensor([3 * units[dtype], -4 * units[dtype], 5 * units[dtype]], dtype)]
        options = {"clip_norm": digits * units[dtype], "norm_type": 3.0}
        yield _make_kept(rule, "norm-three-below", dtype, cubes, options)
    if operation == "global-norm":
        for rule, unit in ((overflow, huge), (underflow, tiny)):
            apart = [make_tensor([3 * unit], dtype), make_tensor([-4 * unit], dtype)]
            yield _make_kept(rule, "two-tensors-below", dtype, apart, {"clip_norm": digits * unit})
        sixteen = [make_tensor([together], dtype)] * 16
        yield _make_kept(overflow, "sum-of-tensors-alone-below", dtype, sixteen, {"clip_norm": digits * together})
        little, large = UNLIKE[dtype]
        yield _make_kept(
            overflow,
            "tiny-beside-huge-below",
            dtype,
            [make_tensor([little], dtype), make_tensor([large], dtype)],
            {"clip_norm": 2 * large},
        )


def _make_kept(rule: str, name: str, dtype: str, gradients: list[Gradient], options: dict[str, float]) -> Case:
    return make_case(rule, name, dtype, gradients, options, expect("untouched", indices=tuple(range(len(gradients)))))


def _leave_range_on_the_way(operation: str, dtype: str) -> Iterator[Case]:
    """Keep c / n within the range, and make other intermediate results leave it."""
    rule = f"{operation}.intermediate-range"
    for name, unlike in (("elements-far-apart", SMALL_QUOTIENT), ("small-products", SMALL_PRODUCT)):
        if dtype in unlike:
            large, little = unlike[dtype]
            tensors = [make_tensor([large, little, -little], dtype)]
            yield make_case(rule, name, dtype, tensors, {"clip_norm": large / 2}, expect("values"))
    if dtype == "float16":
        # The squares are the smallest numbers that float16 holds. The products with clip_norm are smaller.
        unit = 2.0**-12
        yield make_case(
            rule,
            "small",
            dtype,
            [make_tensor([3 * unit, 4 * unit], dtype)],
            {"clip_norm": 2.5 * unit},
            expect("values"),
        )


def _make_subnormal(operation: str, dtype: str) -> Iterator[Case]:
    unit = float(FORMATS[dtype].smallest_subnormal)
    triangle = [make_tensor([48 * unit, -64 * unit], dtype)]
    rule = f"{operation}.subnormal"
    yield make_case(rule, "three-four-five", dtype, triangle, {"clip_norm": 40 * unit}, expect("values", wide=True))
