"""Expect the right elements of unusual calls: rounded bounds, a repeated tensor, and repeated rows."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from gradclip_adapters.contract import Array, Gradient, Reply
from gradclip_reports.statuses import Status

from ...cases.model import Case, expect
from ...cases.readable import show_gradients
from ...oracle.arrays import round_elements
from ...oracle.distances import Measured, measure, measure_distances
from ...oracle.formats import convert_to_dtype, read_float64_values, round_all
from ...oracle.predict import predict
from ..expectation import Expectation, Part
from ..fingerprint import show_expected_arrays
from ..model import Context, Script, Verdict, join_lines
from ..script_lines import assert_one_of, predict_values


@dataclass(frozen=True)
class RoundedBounds(Expectation):
    """An element beyond a bound becomes one of the two numbers next to the bound. Other elements are unchanged."""

    name: ClassVar[str] = "rounded-bounds"
    judges_elements: ClassVar[bool] = True

    def judge_replies(self, context: Context, replies: Sequence[Reply]) -> Verdict:
        """Compare the elements with the bounds."""
        case = context.case
        for i, expected in enumerate(predict(case).gradients):
            given, got = case.gradients[i].array, replies[0].gradients[i]
            if given is None or got is None or expected is None:
                continue
            every = measure_distances(convert_to_dtype(got, given.dtype), expected, given.dtype)
            held = measure_distances(round_elements(expected, given.dtype), expected, given.dtype) == 0
            wrong = np.flatnonzero(np.where(held, every > 0, every > 1))
            if wrong.size:
                place = int(wrong[0])
                what = "is in the dtype" if held[place] else "lies between two numbers of the dtype"
                detail = (
                    f"Element {place} of gradient {i} is {every[place]:.3g} ulp from its exact value, which {what}."
                )
                wanted = {"gradients": show_expected_arrays(case)}
                observed = show_gradients(replies[0].gradients)
                return Verdict(Status.FAIL, detail, float(every[place]), wanted, observed)
        return Verdict(Status.PASS)

    def describe(self, case: Case) -> Sequence[Part]:
        """Return the exact results, and how bounds are rounded."""
        says = "an element beyond a bound becomes one of the two numbers next to the bound; others are unchanged"
        return show_expected_arrays(case), says


@dataclass(frozen=True)
class ScaledOnce(Expectation):
    """A tensor that occurs twice in the list is scaled once. It may count once or twice in the norm."""

    name: ClassVar[str] = "scaled-once"
    judges_elements: ClassVar[bool] = True

    def judge_replies(self, context: Context, replies: Sequence[Reply]) -> Verdict:
        """Compare the elements with the results for each of the two norms."""
        found = [_measure(context, way, replies[0]) for way in _count_twice_and_once(context.case)]
        if any(one.grade != Status.FAIL for one in found):
            return Verdict(Status.PASS, ulp=min(one.ulp for one in found))
        nearest = min(found, key=lambda one: one.ulp)
        detail = f"The tensor may count once or twice. {nearest.write_sentence(context.case.operation)}"
        expected = {"gradients": show_expected_arrays(context.case)}
        return Verdict(Status.FAIL, detail, nearest.ulp, expected, show_gradients(replies[0].gradients))

    def describe(self, case: Case) -> Sequence[Part]:
        """Return the two right results."""
        return [
            *(show_expected_arrays(way) for way in _count_twice_and_once(case)),
            "one of these: the tensor is scaled once, whether it counts in the norm once or twice",
        ]

    def write_script(self, script: Script) -> str:
        """Return lines that accept both results."""
        ways = [predict_values(way, script.entry_point) for way in _count_twice_and_once(script.case)]
        once = {i: ways[1][find_first(script.case, i)] for i in ways[0]}
        return join_lines(script.clip_lines(), assert_one_of([ways[0], once]))


def _measure(context: Context, way: Case, reply: Reply) -> Measured:
    return measure(way, predict(way), reply.gradients, way.included, context.flushes_subnormals)


def find_first(case: Case, index: int) -> int:
    """Return the index of the first gradient that is the same tensor."""
    same = case.gradients[index].same_as
    return index if same is None else same


def _count_twice_and_once(case: Case) -> tuple[Case, Case]:
    """Return two calls: one with a second tensor of the same elements, and one with None in its place."""
    twice = tuple(replace(gradient, same_as=None) for gradient in case.gradients)
    once = tuple(g if g.same_as is None else replace(g, array=None, same_as=None) for g in case.gradients)
    return replace(case, gradients=twice), replace(case, gradients=once)


@dataclass(frozen=True)
class SparseSum(Expectation):
    """Rows that are stored twice stand for their sum, in the gradients and in the results."""

    name: ClassVar[str] = "sparse-sum"
    judges_elements: ClassVar[bool] = True

    def judge_replies(self, context: Context, replies: Sequence[Reply]) -> Verdict:
        """Compare the results, as dense arrays, with the results for dense gradients."""
        case = context.case
        dense = replace(case, gradients=tuple(map(_make_dense, case.gradients)), expectation=expect("values"))
        results = [_make_dense_result(g, got) for g, got in zip(case.gradients, replies[0].gradients, strict=True)]
        found = measure(dense, predict(dense), results, dense.included, context.flushes_subnormals)
        if found.grade != Status.FAIL:
            return Verdict(Status.PASS, ulp=found.ulp)
        detail = f"As dense gradients: {found.write_sentence(case.operation)}"
        expected = {"gradients": show_expected_arrays(dense)}
        return Verdict(Status.FAIL, detail, found.ulp, expected, show_gradients(results))

    def describe(self, case: Case) -> Sequence[Part]:
        """Return the dense results."""
        dense = replace(case, gradients=tuple(map(_make_dense, case.gradients)))
        return show_expected_arrays(dense), "rows that are stored twice are added"


def _make_dense(gradient: Gradient) -> Gradient:
    if gradient.rows is None or gradient.array is None or gradient.height is None:
        return gradient
    return replace(gradient, array=sum_rows(gradient.array, gradient.rows, gradient.height), rows=None, height=None)


def _make_dense_result(gradient: Gradient, got: Array | None) -> Array | None:
    given = gradient.array
    if got is None or given is None or gradient.rows is None or gradient.height is None or got.shape != given.shape:
        return got
    return sum_rows(got, gradient.rows, gradient.height)


def sum_rows(array: Array, rows: Sequence[int], height: int) -> Array:
    """Return a dense array in which the rows are added, each sum rounded once to the dtype."""
    dense = np.zeros((height, *array.shape[1:]))
    # A framework may return any numbers. If their sum is beyond the range, it becomes infinite without a warning.
    with np.errstate(over="ignore", invalid="ignore"):
        np.add.at(dense, list(rows), read_float64_values(array).reshape(array.shape))
    return Array(array.dtype, dense.shape, round_all(dense.ravel(), array.dtype))
