"""Define mutants that write, return or raise wrongly only in some situations."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from .steps import Array, ByGlobalNorm, ClipFunction, Gradients
from .table import caught_by

# Inputs that change.


class _WritesSometimes(ClipFunction):
    """Base of the mutants that return right copies but overwrite some of the input with zeros."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        copies = [None if one is None else one.copy() for one in results]
        for grad, flag in zip(grads, need_clip, strict=True):
            if grad is not None and grad.size and self.spoils(grad, flag, grads):
                grad[...] = 0
        return copies

    def spoils(self, grad: Array, flag: bool, grads: Gradients) -> bool:
        """Tell whether a gradient is overwritten."""
        raise NotImplementedError


@caught_by("inputs-not-mutated", in_place=False)
class SpoilsWhatIsBesideNone(_WritesSometimes):
    """Overwrite the input gradients with zeros if one is missing."""

    def spoils(self, grad: Array, flag: bool, grads: Gradients) -> bool:
        return any(each is None for each in grads)


@caught_by("inputs-not-mutated", in_place=False, dtypes=("float32", "float64"))
class SpoilsTheWiderDtype(_WritesSometimes):
    """Overwrite the input gradients of the widest dtype with zeros if the dtypes differ."""

    def spoils(self, grad: Array, flag: bool, grads: Gradients) -> bool:
        sizes = {each.itemsize for each in grads if each is not None}
        return len(sizes) > 1 and grad.itemsize == max(sizes)


class _Counts(ClipFunction):
    """Base of the mutants that count their calls."""

    def __init__(self) -> None:
        self.calls = 0

    def take(self, grads: Any) -> Gradients:
        self.calls += 1
        return super().take(grads)


@caught_by("global-norm.one-norm-over-all")
class FirstCallDoesNothing(_Counts):
    """Do not clip in the first call."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return grad if self.calls == 1 else result


# The norm that is returned.


@caught_by("global-norm.empty-list")
class NoNormOfNothing(ByGlobalNorm):
    """Return no norm for an empty list."""

    def finish(self, results: Any, total: float, clip_norm: float) -> Any:
        return (results, total) if results else results


@caught_by("global-norm.returned-norm")
class NoNormAtZeroThreshold(ByGlobalNorm):
    """Return a norm of 0 if the threshold is 0."""

    def report_norm(self, total: float, clip_norm: float) -> Any:
        return total if clip_norm else 0.0


class _ReturnsByResults(ByGlobalNorm):
    """Base of the mutants that double the returned norm for some lists."""

    def finish(self, results: Any, total: float, clip_norm: float) -> Any:
        return results, total * 2 if self.is_wrong(results) else total

    def is_wrong(self, results: Gradients) -> bool:
        """Tell whether the returned norm is doubled."""
        raise NotImplementedError


@caught_by("global-norm.returned-norm")
class DoublesNormsBesideNone(_ReturnsByResults):
    """Double the returned norm if a gradient is missing."""

    def is_wrong(self, results: Gradients) -> bool:
        return any(one is None for one in results)


@caught_by("global-norm.returned-norm")
class ReturnsTheEuclideanOfHalf(ByGlobalNorm):
    """Return the Euclidean norm for orders below 1."""

    def compute_norms(self, grads: Gradients, counted: Sequence[int], p: float) -> list[float]:
        self.told = super().compute_norms(grads, counted, 2.0 if p < 1 else p)[0]
        return super().compute_norms(grads, counted, p)

    def report_norm(self, total: float, clip_norm: float) -> Any:
        return self.told


# The option `error_if_nonfinite`.


class _RaisesWrongly(ByGlobalNorm):
    """Base of the mutants that raise for some finite norms, or do not raise for some nonfinite ones."""

    def check(self, clip_norm: float) -> None:
        super().check(clip_norm)
        self.clip_norm = clip_norm

    def refuse_nonfinite(self, grads: Gradients, norms: Sequence[float]) -> None:
        super().refuse_nonfinite(grads, [math.nan] if self.is_refused(grads, norms[0]) else [0.0])

    def is_refused(self, grads: Gradients, norm: float) -> bool:
        """Tell whether an error is raised."""
        raise NotImplementedError


@caught_by("global-norm.error-if-nonfinite")
class RaisesAtZero(_RaisesWrongly):
    """Raise the requested error also for a norm of 0."""

    def is_refused(self, grads: Gradients, norm: float) -> bool:
        return not math.isfinite(norm) or (norm == 0 and bool(grads))


@caught_by("global-norm.error-if-nonfinite")
class RaisesForNothing(_RaisesWrongly):
    """Raise the requested error also for an empty list."""

    def is_refused(self, grads: Gradients, norm: float) -> bool:
        return not math.isfinite(norm) or not grads


@caught_by("global-norm.error-if-nonfinite")
class RaisesBesideNone(_RaisesWrongly):
    """Raise the requested error also if a gradient is missing."""

    def is_refused(self, grads: Gradients, norm: float) -> bool:
        return not math.isfinite(norm) or any(grad is None for grad in grads)


@caught_by("global-norm.error-if-nonfinite")
class RaisesWhereSquaresOverflow(_RaisesWrongly):
    """Raise the requested error also for finite norms from 1.8e19, because their squares overflow float32."""

    def is_refused(self, grads: Gradients, norm: float) -> bool:
        return not norm < 1.8e19


@caught_by("global-norm.returned-norm-nonfinite")
class RaisesUnaskedForLargest(ByGlobalNorm):
    """Raise for a nonfinite infinity norm even if `error_if_nonfinite` is not set."""

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        total = super().compute_norm(tensors, p)
        if p == math.inf:
            self.refuse_nonfinite([], [total])
        return total
