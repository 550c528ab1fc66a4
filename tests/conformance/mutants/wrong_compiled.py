"""Define mutants whose compiled form differs from the ordinary one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from .steps import Array, ClipFunction, Gradients, NormFunction
from .table import caught_by
from .wrong_adapters import Compiles


class _Compiled(ClipFunction):
    """Base of the mutants that also have a compiled form; the adapter chooses the form to call."""

    is_compiled = False


@caught_by("compiled-agrees", adapter=Compiles)
class KnowsNoNaN(_Compiled):
    """Replace NaN by 0 when compiled, as fast-math flags allow."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        return np.nan_to_num(result, nan=0.0, posinf=math.inf, neginf=-math.inf) if self.is_compiled else result


@caught_by("compiled-agrees", adapter=Compiles)
class LosesFlags(_Compiled):
    """Ignore `need_clip` when compiled."""

    def select_included(self, grads: Sequence[Any], need_clip: Sequence[bool]) -> list[int]:
        return super().select_included(grads, [flag or self.is_compiled for flag in need_clip])


@caught_by("compiled-agrees", adapter=Compiles)
class LosesNone(_Compiled):
    """Drop missing gradients when compiled."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        return [result for result in results if result is not None or not self.is_compiled]


@caught_by("compiled-agrees", adapter=Compiles)
class FirstThreshold(NormFunction, _Compiled):
    """Use the first threshold for all later calls when compiled."""

    traced: float | None = None

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        if self.is_compiled:
            self.traced = clip_norm if self.traced is None else self.traced
        return super().clip(grad, self.traced if self.is_compiled and self.traced else clip_norm, norm)


@caught_by("compiled-agrees", adapter=Compiles)
class BothBranches(NormFunction, _Compiled):
    """Return NaN for a zero norm when compiled, because the branch that divides by the norm runs too."""

    def clip(self, grad: Array, clip_norm: float, norm: float) -> Array:
        return grad * np.float32(math.nan) if self.is_compiled and norm == 0 else super().clip(grad, clip_norm, norm)
