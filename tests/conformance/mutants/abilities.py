"""Define adapters for abilities that a signature does not show, and the right steps of functions that have them."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from gradclip_adapters import mesh
from gradclip_adapters.arrays import convert_thresholds, read_axes
from gradclip_adapters.contract import About, Adapter, Call, EntryPoint, Gradient, Reply, framework_call
from gradclip_adapters.contract import Array as Sent
from gradclip_adapters.plain import PlainFunction

from .steps import Array, ByGlobalNorm, ByValue, ClipFunction, Gradients, NormFunction

Clip = Callable[[Gradients], Gradients]

#: These options tell the adapter how to call the function. The function itself does not get them.
TRAINING = ("learning_rate", "start", "weight_decay", "steps", "accumulate")
UNSEEN = ("as_generator", "as_single", "axes", "compiled", "tensor_threshold", *TRAINING)


class WithAbilities(Adapter):
    """Adapter of a plain function with an ability that its signature does not show."""

    features: ClassVar[tuple[str, ...]]
    #: The right steps that a function needs for the ability.
    steps: ClassVar[type[ClipFunction]] = ClipFunction

    def __init__(self, function: Any, operation: str, dtypes: Sequence[str], in_place: bool | None) -> None:
        self._function = function
        self._plain = functools.partial(PlainFunction, operation=operation, dtypes=dtypes, in_place=in_place)

    @classmethod
    def complete(cls, right: type[ClipFunction]) -> type[ClipFunction]:
        return right if issubclass(right, cls.steps) else type("Able", (cls.steps, right), {})

    def about(self) -> About:
        return self._plain(self._function).about()

    def subjects(self) -> Sequence[EntryPoint]:
        (entry_point,) = self._plain(self._function).subjects()
        return [replace(entry_point, features=(*entry_point.features, *self.features))]

    def call(self, call: Call) -> Reply:
        plain = {name: value for name, value in call.options.items() if name not in UNSEEN}
        gradients = tuple(map(self.make_plain, call.gradients))

        @functools.wraps(self._function.__call__)
        def function(grads: Gradients, **options: Any) -> Any:
            return self.call_function(grads, call, options)

        return self._plain(function).call(replace(call, options=plain, gradients=gradients))

    def make_plain(self, gradient: Gradient) -> Gradient:
        """Return the gradient without its group and its cotangent, which the function does not take."""
        return replace(gradient, group=0, cotangent=None)

    def call_function(self, grads: Gradients, call: Call, options: dict[str, Any]) -> Any:
        return self._function(grads, **options)


class UnusualCalls(WithAbilities):
    """Adapter that calls the function as a case asks: compiled, or with an iterator, one array or array thresholds."""

    features = ("compiles", "generator", "single", "tensor_threshold")

    def call_function(self, grads: Gradients, call: Call, options: dict[str, Any]) -> Any:
        self._function.is_compiled = call.options.get("compiled", False)
        if call.options.get("tensor_threshold"):
            options = convert_thresholds(options, lambda value: np.array(value, grads[0].dtype))
        if call.options.get("as_single"):
            return self._function(grads[0], **options)
        return self._function(iter(grads) if call.options.get("as_generator") else grads, **options)


class FillsRows(ClipFunction):
    """Build a dense gradient from its rows."""

    def fill(self, full: Array, values: Array, rows: list[int]) -> None:
        np.add.at(full, rows, values)


class TakesRows(WithAbilities):
    """Adapter that turns row-sparse gradients into dense ones before it calls the function."""

    features = ("sparse",)
    steps = FillsRows

    def make_plain(self, gradient: Gradient) -> Gradient:
        if gradient.rows is None:
            return gradient
        assert gradient.array is not None
        assert gradient.height is not None
        values = gradient.array.numpy()
        full = np.zeros((gradient.height, *values.shape[1:]), values.dtype)
        self._function.fill(full, values, list(gradient.rows))
        return replace(gradient, array=Sent.of(full), rows=None, height=None)


class OverAxes(ClipFunction):
    """Clip each slice of a gradient by its own norm."""

    def clip_over_axes(self, grad: Array, axes: Sequence[int], clip_norm: float) -> Array:
        chosen = self.choose_axes([axis % grad.ndim for axis in axes])
        norms = np.sqrt((grad.astype(float) ** 2).sum(tuple(chosen), keepdims=True))
        scaled = grad * (clip_norm / np.where(norms > 0, norms, 1.0))
        return np.where(norms > clip_norm, scaled, grad).astype(grad.dtype)

    def choose_axes(self, axes: Sequence[int]) -> Sequence[int]:
        return axes


class TakesAxes(WithAbilities):
    """Adapter that tells the function the axes of the norm if a case names them."""

    features = ("axes",)
    steps = OverAxes

    def call_function(self, grads: Gradients, call: Call, options: dict[str, Any]) -> Any:
        """Call the function on each gradient by itself, because the axes belong to its shape."""
        axes = read_axes(call.options)
        if axes is None:
            return self._function(grads, **options)
        return [self._function.clip_over_axes(grad, axes, options["clip_norm"]) for grad in grads]


class Training(ClipFunction):
    """Train by gradient descent."""

    def train(self, grads: Gradients, groups: list[int], options: Any, clip: Clip) -> Gradients:
        """Return the negated parameters."""
        parameters = [np.full_like(grad, options.get("start", 0.0)) for grad in grads]
        decay, rate = options.get("weight_decay", 0.0), options.get("learning_rate", 1.0)
        for step in range(options.get("steps", 1)):
            added = self.add_up(grads, options.get("accumulate", 1), clip)
            update = self.clip_step(step, added, [decay * one for one in parameters], groups, clip)
            parameters = [one - new for one, new in zip(parameters, self.apply_rate(rate, update, clip), strict=True)]
        return [-one for one in parameters]

    def add_up(self, grads: Gradients, passes: int, clip: Clip) -> Gradients:
        return [passes * grad for grad in grads]

    def clip_step(self, step: int, grads: Gradients, decay: Gradients, groups: list[int], clip: Clip) -> Gradients:
        return [one + more for one, more in zip(clip(grads), decay, strict=True)]

    def apply_rate(self, rate: float, update: Gradients, clip: Clip) -> Gradients:
        return [rate * one for one in update]


class TrainingByGroup(Training):
    """Train by gradient descent, with a norm of its own for each group of parameters."""

    def clip_step(self, step: int, grads: Gradients, decay: Gradients, groups: list[int], clip: Clip) -> Gradients:
        found = dict[int, Array]()
        for group in set(groups):
            places = [i for i, one in enumerate(groups) if one == group]
            found |= dict(zip(places, clip([grads[i] for i in places]), strict=True))
        return [found[i] + more for i, more in enumerate(decay)]


class Trains(WithAbilities):
    """Adapter that puts the function into an optimizer and trains."""

    features = ("optimizer", "learning_rate", "training", "groups")
    steps = Training

    def call_function(self, grads: Gradients, call: Call, options: dict[str, Any]) -> Any:
        groups = [gradient.group for gradient in call.gradients]
        return self._function.train(grads, groups, call.options, lambda passed: self.clip(passed, options))

    def clip(self, grads: Gradients, options: dict[str, Any]) -> Gradients:
        result = self._function(grads, **{**options, "need_clip": [True] * len(grads)})
        return list(result[0] if isinstance(result, tuple) else result)


class TrainsByGroup(Trains):
    """Adapter that trains, and whose documentation gives each group its own norm."""

    features = ("optimizer", "norm_per_group")
    steps = TrainingByGroup


class Differentiable(ClipFunction):
    """Compute derivatives through a clip."""

    #: At a kink, the weight of the derivative from above. Each weight of 0, 1/2 and 1 is right.
    share = 0.0

    def pull_back(self, grads: Gradients, cotangents: Gradients, threshold: float) -> Gradients:
        """Return the derivatives of the sum of all results times their cotangents."""
        if isinstance(self, ByValue):
            beyond = [np.sign(np.abs(x) - threshold) for x in grads]
            parts = [np.where(side == 0, 1 - self.share, side < 0) for side in beyond]
            return [np.asarray(part * v, v.dtype) for part, v in zip(parts, cotangents, strict=True)]
        if isinstance(self, ByGlobalNorm):
            return self.pull_back_together(grads, cotangents, threshold)
        pairs = zip(grads, cotangents, strict=True)
        return [self.pull_back_together([x], [v], threshold)[0] for x, v in pairs]

    def pull_back_together(self, grads: Gradients, cotangents: Gradients, threshold: float) -> Gradients:
        norm = np.sqrt(sum(float((x.astype(float) ** 2).sum()) for x in grads))
        share = self.share if norm == threshold else float(norm > threshold)
        if not share:
            return cotangents
        dot = sum(float((x.astype(float) * v).sum()) for x, v in zip(grads, cotangents, strict=True))
        above = [threshold / norm * (v - x * dot / norm**2) for x, v in zip(grads, cotangents, strict=True)]
        return [(share * new + (1 - share) * v).astype(v.dtype) for new, v in zip(above, cotangents, strict=True)]


class PullsBack(WithAbilities):
    """Adapter that returns derivatives through the clip."""

    features = ("differentiable",)
    steps = Differentiable

    def call_function(self, grads: Gradients, call: Call, options: dict[str, Any]) -> Any:
        cotangents = [None if each.cotangent is None else each.cotangent.numpy() for each in call.gradients]
        places = [i for i, each in enumerate(call.gradients) if each.need_clip]
        chosen = ([each[i] for i in places] for each in (grads, cotangents))
        threshold = options["max"] if "max" in options else options["clip_norm"]
        # The derivative of an excluded gradient is its cotangent.
        for i, found in zip(places, self._function.pull_back(*chosen, threshold), strict=True):
            cotangents[i] = found
        return cotangents


class Sharing(ClipFunction):
    """Clip gradients that several processes share.

    One process plays them all: each gets its parts, and can ask for those of the others.
    """

    def answer_as(
        self,
        rank: int,
        parts: Sequence[Gradients],
        axes: Sequence[int | None],
        need_clip: Sequence[bool],
        options: dict[str, Any],
    ) -> tuple[Gradients, float | None]:
        options = convert_thresholds(options, lambda value: self.share_threshold(value, len(parts)))
        included, own = self.select_included(parts[rank], need_clip), list(parts[rank])
        if isinstance(self, ByValue):
            low, high = self.fill_bounds(None, options["max"])
            for i in included:
                own[i] = self.finish_part(rank, axes[i], own[i], self.limit(own[i], low, high))
            return own, None
        assert isinstance(self, NormFunction)
        p, is_global = options.get("norm_type", 2.0), isinstance(self, ByGlobalNorm)
        gathered = {i: self.gather(rank, parts, i, axes[i]) for i in included}
        total = self.reduce([one for tensors in gathered.values() for one in tensors], p)
        for i in included:
            norm = total if is_global else self.reduce(gathered[i], p)
            own[i] = self.finish_part(rank, axes[i], own[i], self.clip(own[i], options["clip_norm"], norm))
        return own, total if is_global else None

    def share_threshold(self, threshold: float, processes: int) -> float:
        return threshold

    def gather(self, rank: int, parts: Sequence[Gradients], place: int, axis: int | None) -> list[Array]:
        """Return the arrays that count in a norm: the parts of all processes, or one copy."""
        return [parts[rank][place]] if axis is None else [part[place] for part in parts]

    def reduce(self, tensors: Sequence[Array], p: float) -> float:
        norm: float = self.compute_norm(tensors, p)  # type: ignore[attr-defined]
        return norm

    def finish_part(self, rank: int, axis: int | None, before: Array, result: Array) -> Array:
        """Return the result of one part; here, the right `result`."""
        return result


class InProcesses(WithAbilities):
    """Adapter that makes a call once for each process, with the parts of all of them, and joins the answers."""

    features = ("distributed",)
    steps = Sharing

    def call(self, call: Call) -> Reply:
        parts = [mesh.cut_call(call, rank) for rank in range(mesh.get_mesh(call).size)]
        arrays = [[g.array and g.array.numpy() for g in part.gradients] for part in parts]
        axes = [mesh.find_sharded_axis(gradient) for gradient in call.gradients]
        flags = [gradient.need_clip for gradient in call.gradients]
        replies = []
        for rank in range(len(parts)):
            # Each process has its own arrays.
            mine = [[None if one is None else one.copy() for one in part] for part in arrays]
            with framework_call() as seen:
                results, norm = self._function.answer_as(rank, mine, axes, flags, dict(call.options))
            gradients = tuple(None if one is None else Sent.of(one) for one in results)
            total = None if norm is None else Sent.of(np.float64(norm))
            replies.append(Reply(gradients, total, warnings=seen.warnings))
        return mesh.join_replies(call, replies)
