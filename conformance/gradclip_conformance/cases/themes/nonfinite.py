"""Make cases of NaN and infinity, in the gradients and in the threshold."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from ..build import DTYPES, NORM_OPERATIONS, Maker, choose_orders, keep_all, list_makers, round_to_tensor
from ..model import Case, expect

#: The rule about each number that is not finite, its name and the number.
NOT_SILENT_NUMBERS = (
    ("nan-not-silent", "nan", math.nan),
    ("infinity-not-silent", "infinity", math.inf),
    ("infinity-not-silent", "minus-infinity", -math.inf),
)
NONFINITE = {name: value for _, name, value in NOT_SILENT_NUMBERS}

#: Orders of the norm, other than the Euclidean one.
NORM_TYPES = choose_orders("one", "three", "infinity")
OTHER_NORM_TYPES = choose_orders("half", "three-halves", "two-and-a-half", "four", "six")

#: The rule about each kind of number, with one such number.
NOT_SILENT_RULES = {"nan-not-silent": math.nan, "infinity-not-silent": math.inf}

NOT_SILENT = expect("not-silent")
#: What an infinite threshold asks of a norm that is not finite.
UNCHANGED = expect("not-silent", unchanged=True)
RAISES = expect("raises-on-nonfinite")
RAISES_BEFORE_ANY_CHANGE = expect("raises-on-nonfinite", atomic=True)


def make_cases() -> Iterator[Case]:
    """Yield all cases of this theme."""
    for dtype in DTYPES:
        for make in list_makers(dtype, ["value"]):
            yield from _make_value_cases(make)
        for make in list_makers(dtype, NORM_OPERATIONS):
            yield from _ask_not_silent(make)
            yield from _ask_not_silent_in_any_form(make)
            if dtype == "float32":
                yield from _ask_not_silent_anywhere(make)
            yield from _make_threshold_infinite(make)
        for make in list_makers(dtype, ["global-norm"]):
            yield from _set_error_flag(make)
            yield from _ask_returned_norm(make)


def _make_value_cases(make: Maker) -> Iterator[Case]:
    some = make.tensor([math.nan, 3.0, -0.5, math.nan])
    values = [math.nan, 3.0, -math.inf, -3.0, math.inf, 0.5]
    forms = [make.tensor(values, (2, 3)), make.tensor([math.nan], ()), make.tensor([-math.inf], ())]
    long = round_to_tensor(np.resize(values, 1003), make.dtype)
    yield from make.table(
        "nan-stays",
        ("min-and-max", some, 1.0, {"min": -1.0}),
        ("max-only", some, 1.0),
        ("equal-bounds", some, 0.5, {"min": 0.5}),
        ("both-bounds-zero", some, 0.0, {"min": 0.0}),
        ("every-form", forms, 1.0, {"min": -1.0}),
        ("long", long, 1.0, {"min": -1.0}),
        ("every-form-max-only", forms, 1.0),
        ("long-max-only", long, 1.0),
    )
    infinite = make.tensor([math.inf, -math.inf, 0.5])
    yield from make.table(
        "infinity-clipped",
        ("min-and-max", infinite, 1.0, {"min": -1.0}),
        ("max-only", infinite, 1.0),
    )
    everything = make.tensor([3.0, -3.0, -0.0, 0.5, math.inf, -math.inf, math.nan])
    yield from make.table(
        "infinite-bounds",
        ("max-only", everything, 1.0, {"min": -math.inf}),
        ("min-only", everything, math.inf, {"min": -1.0}),
        ("neither", everything, math.inf, {"min": -math.inf}),
        ("infinite-max-alone", everything, math.inf),
    )


def _ask_not_silent(make: Maker) -> Iterator[Case]:
    for rule, name, value in NOT_SILENT_NUMBERS:
        one_of_two = make.tensors([3.0, value], [4.0, -2.0])
        yield make.case(rule, f"{name}-threshold-small", one_of_two, 1.0, NOT_SILENT)
        yield make.case(rule, f"{name}-threshold-large", one_of_two, 1024.0, NOT_SILENT)
    for rule, value in (("nan-not-silent", math.nan), ("infinity-not-silent", -math.inf)):
        finite = [[1.0, 2.0]] * 4
        many = make.tensors(*finite, [value, 2.0], *finite)
        yield make.case(rule, "one-among-many", many, 1.0, NOT_SILENT)


def _ask_not_silent_in_any_form(make: Maker) -> Iterator[Case]:
    """Put a NaN or an infinity in gradients of every form."""
    beside = make.tensor([4.0, -2.0])
    for rule, value in NOT_SILENT_RULES.items():
        six = [3.0, 1.0, -2.0, value, 0.0, 5.0]
        yield from make.table(
            rule,
            ("zero-dimensional", [beside, make.tensor([value], ())], 1.0),
            ("matrix", [beside, make.tensor(six, (2, 3))], 1.0),
            ("three-dimensional", [beside, make.tensor(six, (1, 3, 2))], 1.0),
            ("strided", [beside, make.tensor(six, layout="strided")], 1.0),
            ("transposed", [beside, make.tensor(six, (2, 3), layout="transposed")], 1.0),
            ("long", [beside, round_to_tensor(np.tile([*[0.25] * 50, value], 20), make.dtype)], 1.0),
            expectation=NOT_SILENT,
        )


def _ask_not_silent_anywhere(make: Maker) -> Iterator[Case]:
    """Put a NaN or an infinity at the end, put both kinds together, and use other norms and thresholds."""
    for rule, value in NOT_SILENT_RULES.items():
        beside = make.tensor([4.0, -2.0])
        last = round_to_tensor(np.tile([*[1.0] * 30, value], 4), make.dtype)
        one_of_two = [make.tensor([3.0, value]), beside]
        yield from make.table(
            rule,
            ("last-of-many-elements", [beside, last], 1.0),
            *((name, one_of_two, 1.0, {"norm_type": p}) for name, p in NORM_TYPES.items()),
            ("threshold-zero", one_of_two, 0.0),
            ("threshold-zero-of-a-matrix", [beside, make.tensor([3.0, value], (1, 2))], 0.0),
            expectation=NOT_SILENT,
        )
    both = make.tensors([3.0, math.inf], [math.nan, -2.0])
    yield make.case("nan-not-silent", "beside-infinity", both, 1.0, NOT_SILENT)


def _make_threshold_infinite(make: Maker) -> Iterator[Case]:
    yield make.case("infinite-threshold", "finite", make.tensor([3.0, 4.0, -0.0]), math.inf, keep_all)
    for name, value in NONFINITE.items():
        # If each gradient is clipped by its own norm, a finite gradient here would break the rule about finite
        # gradients.
        beside = make.tensors([4.0, -2.0]) if make.operation.is_global else []
        some = [make.tensor([3.0, value]), *beside]
        yield make.case("infinite-threshold-nonfinite", name, some, math.inf, UNCHANGED)


def _set_error_flag(make: Maker) -> Iterator[Case]:
    rule, atomic, flag = "error-if-nonfinite", "error-if-nonfinite-atomic", {"error_if_nonfinite": True}
    finite = make.tensors([3.0], [4.0])
    for name, value in NONFINITE.items():
        tensors = make.tensors([3.0, 4.0], [value, 1.0])
        for raising, expectation in ((atomic, RAISES_BEFORE_ANY_CHANGE), (rule, RAISES)):
            yield from make.table(
                raising,
                (name, tensors, 1.0, flag),
                *((f"{name}-{norm}", tensors, 1.0, {**flag, "norm_type": p}) for norm, p in NORM_TYPES.items()),
                expectation=expectation,
            )
        # The option is either left out or set to False.
        yield from make.table(
            rule,
            (f"{name}-passes", tensors, 1.0),
            (f"{name}-passes-where-it-is-false", tensors, 1.0, {"error_if_nonfinite": False}),
            expectation=NOT_SILENT,
            needs=["error_if_nonfinite"],
        )
    forms = [make.tensor([3.0], ()), make.tensor([1.0, -2.0], (2, 1)), make.tensor([4.0] * 4, (2, 1, 2))]
    every = [make.tensor([2.0]), *forms, make.tensor([1.0, math.nan], (1, 2)), *forms]
    yield make.case(atomic, "nan-among-every-form", every, 1.0, RAISES_BEFORE_ANY_CHANGE, error_if_nonfinite=True)
    excluded = [*finite, make.tensor([math.nan, math.inf], need_clip=False)]
    yield from make.table(rule, ("finite-passes", finite, 1.0, flag), ("excluded-passes", excluded, 1.0, flag))
    if make.dtype == "float32":
        yield from _set_error_flag_elsewhere(make, rule)


def _set_error_flag_elsewhere(make: Maker, rule: str) -> Iterator[Case]:
    """Set the flag with other thresholds and numbers of gradients, and with unusual norms that are finite."""
    triangle, nan = make.tensors([3.0, 4.0], [math.nan])
    flag, unit = {"error_if_nonfinite": True}, 2.0**65
    yield from make.table(
        rule,
        ("nan-threshold-large", [triangle, nan], 1024.0, flag),
        ("nan-threshold-infinite", [triangle, nan], math.inf, flag),
        ("nan-threshold-zero", [triangle, nan], 0.0, flag),
        ("nan-first-of-many", [nan, *[triangle] * 31], 1.0, flag),
        ("nan-last-of-many", [*[triangle] * 31, nan], 1.0, flag),
        expectation=RAISES,
    )
    yield from make.table(
        "error-if-nonfinite-atomic",
        *((f"nan-{norm}", [triangle, nan], 1.0, {**flag, "norm_type": p}) for norm, p in OTHER_NORM_TYPES.items()),
        expectation=RAISES_BEFORE_ANY_CHANGE,
    )
    yield from make.table(
        rule,
        ("zeros-pass", make.tensor([0.0, 0.0]), 1.0, flag),
        ("none-passes", [triangle, make.tensor(None)], 1.0, flag),
        ("empty-list-passes", [], 1.0, expect("structure", aspect="count"), flag),
        ("overflow-of-squares-passes", make.tensor([3 * unit, 4 * unit]), unit, expect("values", wide=True), flag),
    )


def _ask_returned_norm(make: Maker) -> Iterator[Case]:
    norm_types = NORM_TYPES if make.dtype == "float32" else {}
    for name, value in NONFINITE.items():
        tensors = make.tensors([3.0, value], [4.0])
        yield from make.table(
            "returned-norm-nonfinite",
            (name, tensors, 1.0),
            *((f"{name}-{norm}", tensors, 1.0, {"norm_type": p}) for norm, p in norm_types.items()),
            expectation=expect("returned-norm"),
        )
    both = make.tensors([3.0, math.inf], [math.nan])
    yield make.case("returned-norm-nonfinite", "nan-and-infinity", both, 1.0, expect("returned-norm"))
