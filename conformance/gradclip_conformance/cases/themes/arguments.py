"""Make cases of invalid thresholds, of integer thresholds, and of gradients that are not passed as a list."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from gradclip_adapters.contract import Gradient

from ..build import DTYPES, NORM_OPERATIONS, OPERATIONS, make_case, make_clipping_options, make_tensor
from ..model import Case, expect

__all__ = ["make_cases"]


def make_cases() -> Iterator[Case]:
    """Yield all cases of this theme."""
    for dtype in DTYPES:
        tensors = [make_tensor([3.0], dtype), make_tensor([-4.0], dtype)]
        for operation in NORM_OPERATIONS:
            refused = f"{operation}.negative-threshold-refused"
            yield make_case(refused, "minus-one", dtype, tensors, {"clip_norm": -1.0}, expect("refused"))
            # No result shows a sign error here, because the threshold is tiny or the gradient is zero.
            yield make_case(refused, "minus-little", dtype, tensors, {"clip_norm": -(2.0**-10)}, expect("refused"))
            zeros = [make_tensor([0.0, 0.0], dtype)]
            yield make_case(refused, "zero-gradient", dtype, zeros, {"clip_norm": -1.0}, expect("refused"))
            yield make_case(refused, "minus-infinity", dtype, tensors, {"clip_norm": -math.inf}, expect("refused"))
            yield make_case(
                f"{operation}.nan-threshold", "nan", dtype, tensors, {"clip_norm": math.nan}, expect("recorded")
            )
        yield make_case("value.min-above-max", "swapped", dtype, tensors, {"min": 1.0, "max": -1.0}, expect("recorded"))
        yield make_case("value.min-above-max", "negative-max-only", dtype, tensors, {"max": -1.0}, expect("recorded"))
        yield make_case("value.nan-threshold", "nan", dtype, tensors, {"max": math.nan}, expect("recorded"))
        ordered = [make_tensor([8.0], dtype), make_tensor([-1.0], dtype), make_tensor([4.0, 0.0], dtype)]
        for operation in ("value", "global-norm"):
            options = {**make_clipping_options(operation, 3.0), "as_generator": True}
            yield make_case(
                f"{operation}.any-iterable", "generator", dtype, ordered, options, expect("values"), ["generator"]
            )
            single = f"{operation}.single-tensor"
            for name, shape in (("vector", (6,)), ("matrix", (2, 3)), ("scalar", ())):
                values = [2.0, -4.0, 0.5, 0.0, 4.0, -0.5] if shape else [-4.0]
                options = {**make_clipping_options(operation, 3.0), "as_single": True}
                yield make_case(
                    single, name, dtype, [make_tensor(values, dtype, shape)], options, expect("values"), ["single"]
                )
        uneven = [make_tensor([2.5], dtype), make_tensor([-1.5], dtype), make_tensor([4.0, 0.25], dtype)]
        for operation in OPERATIONS:
            for name, threshold in (("clipped", 2), ("not-clipped", 32)):
                options = make_clipping_options(operation, threshold)
                yield make_case(f"{operation}.integer-threshold", name, dtype, uneven, options, expect("values"))
        both: dict[str, Any] = {"min": -1, "max": 2}
        yield make_case("value.integer-threshold", "min-and-max", dtype, uneven, both, expect("values"))
        if dtype != "float16":
            yield from _make_beyond_32_bits(dtype)
        yield from _make_thresholds_of_other_kinds(dtype, uneven)
        yield from _make_tensor_thresholds(dtype, uneven)


def _make_beyond_32_bits(dtype: str) -> Iterator[Case]:
    """Pass integer thresholds that do not fit into 32 bits."""
    large = [make_tensor([3 * 2.0**31, -4 * 2.0**31], dtype)]
    for operation in OPERATIONS:
        options = make_clipping_options(operation, 2**32 if operation == "value" else 5 * 2**30)
        yield make_case(f"{operation}.integer-threshold", "beyond-32-bits", dtype, large, options, expect("values"))


def _make_tensor_thresholds(dtype: str, gradients: list[Gradient]) -> Iterator[Case]:
    for operation in OPERATIONS:
        rule, needs = f"{operation}.tensor-threshold", ["tensor_threshold"]
        for name, threshold in (("clipped", 2.0), ("not-clipped", 32.0), ("zero", 0.0)):
            options = {**make_clipping_options(operation, threshold), "tensor_threshold": True}
            yield make_case(rule, name, dtype, gradients, options, expect("values"), needs)
    both: dict[str, Any] = {"min": -1.0, "max": 2.0, "tensor_threshold": True}
    yield make_case("value.tensor-threshold", "min-and-max", dtype, gradients, both, expect("values"), needs)


def _make_thresholds_of_other_kinds(dtype: str, gradients: list[Gradient]) -> Iterator[Case]:
    needs = ["threshold_kinds"]
    for operation in OPERATIONS:
        options = make_clipping_options(operation, 2.0)
        # By NumPy's promotion rules, a wider scalar gives a wider result.
        if dtype != "bfloat16":
            of_kind = {**options, "threshold_as": f"numpy-{dtype}"}
            yield make_case(
                f"{operation}.numpy-threshold", "same-dtype", dtype, gradients, of_kind, expect("values"), needs
            )
        if dtype != "float32":
            continue
        for kind in ("numpy-float64", "array", "array-of-one", "text", "bool"):
            of_kind = {**options, "threshold_as": kind}
            yield make_case(
                f"{operation}.unusual-threshold", kind, dtype, gradients, of_kind, expect("recorded"), needs
            )
        for name, p in (("zero", 0.0), ("minus-one", -1.0), ("minus-infinity", -math.inf)):
            if operation != "value":
                of_order = {**options, "norm_type": p}
                yield make_case(
                    f"{operation}.norm-type-not-positive", name, dtype, gradients, of_order, expect("recorded")
                )
