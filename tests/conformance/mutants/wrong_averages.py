"""Define wrong clips by averages: by block RMS and by average norm.

Most of their defects are those of wrong clips by norm. `REUSED` combines these with right clips by averages, and with
the right clip per example.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from . import (
    wrong_arguments,
    wrong_effects,
    wrong_exclusion,
    wrong_kinds,
    wrong_layouts,
    wrong_lists,
    wrong_norms,
    wrong_numerics,
    wrong_scaling,
    wrong_special,
    wrong_written,
)
from .steps import Array, ByAverage, ClipFunction, Gradients
from .table import caught_by

__all__ = ["REUSED"]

BOTH_WAYS = ("overflow-of-squares", "underflow-of-squares")


def _list_rules(name: str) -> tuple[str, ...]:
    """Return a rule of both averages, for defects that show another way or not at all in a sum over examples."""
    return f"block-rms.{name}", f"average-norm.{name}"


#: Mutants of other modules, with the rules that must catch them.
REUSED: dict[type[Any], tuple[str, ...]] = {
    wrong_effects.RemembersByObject: _list_rules("repeatable"),
    wrong_arguments.FloatsAlone: ("integer-threshold",),
    wrong_kinds.FloatsAlone: ("numpy-threshold",),
    wrong_kinds.WarnsForEachGradient: ("no-warnings",),
    wrong_layouts.WrongBackwards: ("layout",),
    wrong_lists.RaisesForNothing: (*_list_rules("empty-list"), "unitwise.empty-list"),
    wrong_effects.ResultsInOneBuffer: ("results-survive",),
    wrong_effects.ThresholdInAModule: ("threads-agree",),
    wrong_effects.NegativeFlipsTheSign: ("negative-threshold-refused",),
    wrong_exclusion.ExcludedLoseMinusZero: ("excluded-untouched",),
    wrong_exclusion.ZerosForNone: ("none-stays-none",),
    wrong_exclusion.DropsNone: ("none-stays-none",),
    wrong_special.NanIsNotAbove: ("nan-not-silent",),
    wrong_special.LeavesNonfiniteAlone: ("nan-not-silent", "infinity-not-silent"),
    wrong_special.InfinityByInfinity: ("infinite-threshold",),
    wrong_norms.ForgetsTheRoot: ("per-example.scaled-above",),
    wrong_numerics.SquaresInTheDtype: BOTH_WAYS,
    wrong_scaling.AlwaysRescales: ("identity-below",),
    wrong_scaling.ScalesBelowToo: ("identity-below", "at-threshold"),
    wrong_scaling.EpsilonInTheComparison: ("at-threshold",),
    wrong_lists.RaisesForEmptyTensors: ("empty-tensor",),
    wrong_lists.ScalarsLeftAlone: ("zero-dimensional",),
    wrong_lists.Flattens: ("shape-kept",),
    wrong_lists.Widens: ("dtype-kept",),
    wrong_effects.ResultsCannotBeWritten: _list_rules("results-independent"),
    wrong_effects.ErrorsAreIgnored: ("surroundings-kept",),
    wrong_special.ScalesZerosToTheThreshold: _list_rules("zero-gradient"),
    wrong_special.RaisesForZeroNorm: ("zero-gradient",),
    wrong_special.ZeroByZero: ("zero-gradient-zero-threshold",),
    wrong_special.ZeroMeansOff: ("zero-threshold",),
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
class EveryOtherAnswerDiffers(ClipFunction):
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
class TakesNoRoot(ByAverage):
    """Take the mean of the squares, or the square of the average norm."""

    def average(self, norm: float, elements: int) -> float:
        return super().average(norm, elements) * super().average(norm, elements)


@caught_by("in-place-written", in_place=True, others=True)
class WritesNothing(ByAverage):
    """Return new gradients although the results must be written in place."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.array(result)
