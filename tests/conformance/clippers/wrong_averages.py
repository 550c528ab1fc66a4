"""Define wrong clips by averages: by block RMS and by average norm.

Most of their defects are those of wrong clips by norm. `REUSED` combines these with right clips by averages, and with
the right clip per example.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from . import (
    wrong_caches,
    wrong_effects,
    wrong_exclusion,
    wrong_integers,
    wrong_kinds,
    wrong_layouts,
    wrong_lists,
    wrong_nonfinite,
    wrong_norms,
    wrong_numerics,
    wrong_scaling,
    wrong_shapes,
    wrong_side_effects,
    wrong_threads,
    wrong_written,
    wrong_zero,
)
from .steps import Array, ByAverage, Clipper, Gradients
from .table import caught_by

__all__ = ["REUSED"]

BOTH_WAYS = ("overflow-of-squares", "underflow-of-squares")


def _list_rules(name: str) -> tuple[str, ...]:
    """Return a rule of both averages, for defects that show another way or not at all in a sum over examples."""
    return f"block-rms.{name}", f"average-norm.{name}"


#: Wrong clippers of other modules, with the rules that must catch them.
REUSED: dict[type[Any], tuple[str, ...]] = {
    wrong_caches.RemembersByObject: _list_rules("repeatable"),
    wrong_integers.FloatsAlone: ("integer-threshold",),
    wrong_kinds.FloatsAlone: ("numpy-threshold",),
    wrong_kinds.WarnsForEachGradient: ("no-warnings",),
    wrong_layouts.WrongBackwards: ("layout",),
    wrong_lists.RaisesForNothing: (*_list_rules("empty-list"), "unitwise.empty-list"),
    wrong_side_effects.ResultsInOneBuffer: ("results-survive",),
    wrong_threads.ThresholdInAModule: ("threads-agree",),
    wrong_effects.NegativeFlipsTheSign: ("negative-threshold-refused",),
    wrong_effects.NegativeMeansOff: ("negative-threshold-refused",),
    wrong_exclusion.ClipsTheExcluded: ("excluded-untouched",),
    wrong_exclusion.ExcludedLoseMinusZero: ("excluded-untouched",),
    wrong_exclusion.ZerosForNone: ("none-stays-none",),
    wrong_exclusion.DropsNone: ("none-stays-none",),
    wrong_nonfinite.NanIsNotAbove: ("nan-not-silent",),
    wrong_nonfinite.LeavesNonfiniteAlone: ("nan-not-silent", "infinity-not-silent"),
    wrong_nonfinite.InfinityIsNotCounted: ("infinity-not-silent",),
    wrong_nonfinite.InfinityByInfinity: ("infinite-threshold",),
    wrong_norms.ForgetsTheRoot: ("per-example.scaled-above",),
    wrong_numerics.SquaresInTheDtype: BOTH_WAYS,
    wrong_scaling.AlwaysRescales: ("identity-below",),
    wrong_scaling.ScalesBelowToo: ("identity-below", "at-threshold"),
    wrong_scaling.EpsilonInTheComparison: ("at-threshold",),
    wrong_scaling.ComparesWithSlack: ("at-threshold",),
    wrong_shapes.RaisesForEmptyTensors: ("empty-tensor",),
    wrong_shapes.DropsEmptyTensors: _list_rules("empty-tensor"),
    wrong_shapes.ScalarsBecomeVectors: _list_rules("zero-dimensional"),
    wrong_shapes.ScalarsLeftAlone: ("zero-dimensional",),
    wrong_shapes.Flattens: ("shape-kept",),
    wrong_shapes.Widens: ("dtype-kept",),
    wrong_side_effects.ResultsCannotBeWritten: _list_rules("results-independent"),
    wrong_side_effects.ErrorsAreIgnored: ("surroundings-kept",),
    wrong_zero.ScalesZerosToTheThreshold: _list_rules("zero-gradient"),
    wrong_zero.RaisesForZeroNorm: ("zero-gradient",),
    wrong_zero.ZeroByZero: ("zero-gradient-zero-threshold",),
    wrong_zero.ZeroMeansOff: ("zero-threshold",),
}
for _mutation, _rules in REUSED.items():
    caught_by(*_rules, others=True)(_mutation)
MIXED = ("float16", "float32", "float64")
caught_by("mixed-dtypes", dtypes=MIXED, others=True)(wrong_lists.DtypeOfTheFirst)
caught_by("half-not-accumulated-in-half", dtypes=("float16",), others=True)(wrong_numerics.RunningSumInHalf)
caught_by("half-not-accumulated-in-half", dtypes=("float16",), others=True)(wrong_numerics.SumOutOfRange)
caught_by("dtype-accepted", dtypes=("float32", "float64"), others=True)(wrong_lists.RefusesDouble)
caught_by("inputs-not-mutated", in_place=False, others=True)(wrong_written.WritesIntoItsInput)


@caught_by("repeatable", others=True)
class EveryOtherAnswerDiffers(Clipper):
    """Return the next larger floating-point numbers on every other call, sums and whole tensors alike."""

    calls = 0

    def __call__(self, grads: Gradients, **keywords: Any) -> Any:
        results = super().__call__(grads, **keywords)
        self.calls += 1
        if self.calls % 2:
            return results
        return [None if one is None else np.nextafter(one, one.dtype.type(np.inf)) for one in results]


@caught_by("scaled-above", "identity-below", "each-tensor-alone", others=True)
class LeavesTheNormWhole(ByAverage):
    """Compare the Euclidean norm itself with the threshold."""

    def average(self, norm: float, elements: int) -> float:
        return norm


@caught_by("scaled-above", others=True)
class AveragesTheOtherWay(ByAverage):
    """Divide by the number of elements instead of its root, or by the root instead of the number."""

    def average(self, norm: float, elements: int) -> float:
        return norm / max(elements, 1) ** (1.5 - self.power)


@caught_by("scaled-above", others=True)
class CountsOneLess(ByAverage):
    """Divide as if there were one element less, as an unbiased estimate of a variance does."""

    def average(self, norm: float, elements: int) -> float:
        return super().average(norm, elements - 1)


@caught_by("scaled-above", others=True)
class TakesNoRoot(ByAverage):
    """Take the mean of the squares, or the square of the average norm."""

    def average(self, norm: float, elements: int) -> float:
        return super().average(norm, elements) * super().average(norm, elements)


@caught_by("scaled-above", others=True)
class CountsTheFirstAxis(ByAverage):
    """Divide by the length of the first axis, as if every gradient were a vector."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        return [
            self.average(self.compute_norm([grads[i]], p), len(np.atleast_1d(grads[i]))) if i in counted else 0.0
            for i in range(len(grads))
        ]


@caught_by("each-tensor-alone", others=True)
class AveragesOverAll(ByAverage):
    """Clip all gradients by one average over all of them."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        chosen = [grads[i] for i in counted]
        average = self.average(self.compute_norm(chosen, p), sum(grad.size for grad in chosen))
        return [average] * len(grads)


@caught_by("in-place-written", in_place=True, others=True)
class WritesNothing(ByAverage):
    """Return new gradients although the results must be written in place."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.array(result)
