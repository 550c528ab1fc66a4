"""Define clippers with right results and side effects: they share memory, change state, or warn."""

from __future__ import annotations

import os
import random
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from .steps import Array, Clipper, Gradients
from .table import caught_by


@caught_by("results-independent")
class EqualResultsAreOne(Clipper):
    """Return the same array for all equal results."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        known: dict[Any, Any] = {}
        key = [None if one is None else (one.dtype.str, one.shape, one.tobytes()) for one in results]
        return [known.setdefault(name, one) for name, one in zip(key, results, strict=True)]


@caught_by("results-independent")
class ResultsCannotBeWritten(Clipper):
    """Return arrays that cannot be written."""

    def hand_back(self, grad: Array, result: Any) -> Any:
        result = np.array(result)
        result.flags.writeable = False
        return result


class _Pool(Clipper):
    """Base of the clippers that reuse memory for results in later calls."""

    def __init__(self) -> None:
        self.kept: dict[Any, Array] = {}


@caught_by("results-survive")
class ResultsInOneBuffer(_Pool):
    """Keep one array for each place and form, and write the results of every call into it."""

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        for place, one in enumerate(results):
            if one is not None and need_clip[place]:
                kept = self.kept.setdefault((place, one.dtype.str, one.shape), np.empty_like(one))
                kept[...] = one
                results[place] = kept
        return results


@caught_by("surroundings-kept")
class ErrorsAreIgnored(Clipper):
    """Switch NumPy's floating-point errors off, and do not restore them."""

    def take(self, grads: Any) -> Gradients:
        np.seterr(all="ignore")
        return super().take(grads)


@caught_by("surroundings-kept")
class Seeds(Clipper):
    """Seed NumPy's random numbers."""

    def take(self, grads: Any) -> Gradients:
        np.random.seed(0)  # noqa: NPY002 - this is the defect
        return super().take(grads)


@caught_by("surroundings-kept")
class DrawsANumber(Clipper):
    """Draw a random number, which changes the caller's next one."""

    def take(self, grads: Any) -> Gradients:
        random.random()
        return super().take(grads)


@caught_by("surroundings-kept")
class SetsAnEnvironmentVariable(Clipper):
    """Set an environment variable for threads."""

    def take(self, grads: Any) -> Gradients:
        os.environ["OMP_NUM_THREADS"] = str(1 + int(os.environ.get("OMP_NUM_THREADS", "1")))
        return super().take(grads)


@caught_by("surroundings-kept")
class ResultsInTheCallersList(Clipper):
    """Put the results into the caller's list, too."""

    def take(self, grads: Any) -> Gradients:
        return grads if isinstance(grads, list) else super().take(grads)

    def answer(self, grads: Gradients, need_clip: Sequence[bool], results: Gradients) -> Any:
        grads[:] = results
        return results


@caught_by("no-warnings")
class IsDeprecated(Clipper):
    """Warn in every call that the function is deprecated."""

    def take(self, grads: Any) -> Gradients:
        warnings.warn("use the other one", DeprecationWarning, stacklevel=2)
        return super().take(grads)
