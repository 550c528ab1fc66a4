"""Define mutants whose defects show in training: in several steps, with weight decay, in groups, in derivatives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from gradclip_adapters.contract import Call, Gradient

from .steps import Array, ClipFunction, Gradients
from .table import caught_by
from .wrong_adapters import WithAbilities

Clip = Callable[[Gradients], Gradients]


class Trains(WithAbilities):
    """Adapter that puts the function into an optimizer and trains."""

    features = ("optimizer", "learning_rate", "training", "groups")

    def make_dense(self, call: Call) -> tuple[Gradient, ...]:
        """Return the gradients without groups and cotangents, which the function does not take."""
        return tuple(replace(gradient, group=0, cotangent=None) for gradient in call.gradients)

    def call_function(self, grads: Gradients, call: Call, options: dict[str, Any]) -> Any:
        """Return the negated parameters after the training."""
        groups = [gradient.group for gradient in call.gradients]
        return self._function.train(grads, groups, call.options, lambda passed: self.clip(passed, options))

    def clip(self, grads: Gradients, options: dict[str, Any]) -> Gradients:
        """Return the clipped gradients without the norm."""
        result = self._function(grads, **{**options, "need_clip": [True] * len(grads)})
        return list(result[0] if isinstance(result, tuple) else result)


class TrainsByGroup(Trains):
    """Adapter that trains, and whose documentation gives each group its own norm."""

    features = ("optimizer", "norm_per_group")


class PullsBack(Trains):
    """Adapter that returns derivatives through the clip."""

    features = ("differentiable",)

    def call_function(self, grads: Gradients, call: Call, options: dict[str, Any]) -> Any:
        """Return the derivatives."""
        pulled = [None if each.cotangent is None else each.cotangent.numpy() for each in call.gradients]
        return self._function.pull(grads, pulled, options)


class _Training(ClipFunction):
    """Base of the optimizers; each of its steps is right."""

    def train(self, grads: Gradients, groups: list[int], options: Any, clip: Clip) -> Gradients:
        """Return the negated parameters."""
        parameters = [np.full_like(grad, options.get("start", 0.0)) for grad in grads]
        decay = options.get("weight_decay", 0.0)
        for step in range(options.get("steps", 1)):
            added = self.add_up(grads, options.get("accumulate", 1), clip)
            update = self.clip_step(step, added, [decay * one for one in parameters], groups, clip)
            parameters = [one - new for one, new in zip(parameters, update, strict=True)]
        return [-one for one in parameters]

    def add_up(self, grads: Gradients, passes: int, clip: Clip) -> Gradients:
        """Return the sums of the gradients of several backward passes."""
        return [passes * grad for grad in grads]

    def clip_step(self, step: int, grads: Gradients, decay: Gradients, groups: list[int], clip: Clip) -> Gradients:
        """Return the amounts that one step subtracts."""
        return [one + more for one, more in zip(clip(grads), decay, strict=True)]


@caught_by("decay-after-clip", adapter=Trains)
class ClipsTheDecay(_Training):
    """Add the weight decay to the gradients before they are clipped."""

    def clip_step(self, step: int, grads: Gradients, decay: Gradients, groups: list[int], clip: Clip) -> Gradients:
        return clip([one + more for one, more in zip(grads, decay, strict=True)])


@caught_by("each-step-clips", adapter=Trains)
class ClipsTheFirstStep(_Training):
    """Clip in the first step only."""

    def clip_step(self, step: int, grads: Gradients, decay: Gradients, groups: list[int], clip: Clip) -> Gradients:
        return grads if step else super().clip_step(step, grads, decay, groups, clip)


@caught_by("accumulated-then-clipped", adapter=Trains)
class ClipsEachPass(_Training):
    """Clip the gradients of each backward pass, and not their sum."""

    def add_up(self, grads: Gradients, passes: int, clip: Clip) -> Gradients:
        return [passes * one for one in clip(grads)]

    def clip_step(self, step: int, grads: Gradients, decay: Gradients, groups: list[int], clip: Clip) -> Gradients:
        return [one + more for one, more in zip(grads, decay, strict=True)]


@caught_by("global-norm.one-norm-over-groups", adapter=Trains)
class NormOfEachGroup(_Training):
    """Clip the gradients of each group by their own global norm."""

    def clip_step(self, step: int, grads: Gradients, decay: Gradients, groups: list[int], clip: Clip) -> Gradients:
        found = dict[int, Array]()
        for group in set(groups):
            places = [i for i, one in enumerate(groups) if one == group]
            found |= dict(zip(places, clip([grads[i] for i in places]), strict=True))
        return [found[i] for i in range(len(grads))]


@caught_by("global-norm.norm-per-group", adapter=TrainsByGroup)
class OneNormOverGroups(_Training):
    """Clip all groups by one global norm, although the documentation gives each its own."""


class _Derivatives(ClipFunction):
    """Base of the mutants with wrong derivatives."""

    def pull(self, grads: Gradients, pulled: Gradients, options: dict[str, Any]) -> Gradients:
        """Return the derivatives of the sum of all results times their cotangents."""
        raise NotImplementedError


@caught_by("derivative", adapter=PullsBack)
class PassesThrough(_Derivatives):
    """Return the cotangents as if nothing were clipped."""

    def pull(self, grads: Gradients, pulled: Gradients, options: dict[str, Any]) -> Gradients:
        return pulled
