"""Define mutants whose defects show only with iterators, in an optimizer, or when compiled."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from gradclip_adapters.contract import About, Adapter, Array, Call, EntryPoint, Gradient, Reply
from gradclip_adapters.plain import PlainFunction

from .steps import Array as Values
from .steps import ClipFunction, Gradients
from .table import caught_by

#: These options tell the adapter how to call the function. The function itself does not get them.
TRAINING = ("learning_rate", "start", "weight_decay", "steps", "accumulate")
UNSEEN = ("as_generator", "as_single", "axes", "compiled", "tensor_threshold", *TRAINING)


class WithAbilities(Adapter):
    """Adapter of a plain function with an ability that its signature does not show."""

    features: ClassVar[tuple[str, ...]]

    def __init__(self, function: Any, operation: str, dtypes: Sequence[str], in_place: bool | None) -> None:
        self._function = function
        self._plain = functools.partial(PlainFunction, operation=operation, dtypes=dtypes, in_place=in_place)

    def about(self) -> About:
        """Return the description of the plain function."""
        return self._plain(self._function).about()

    def subjects(self) -> Sequence[EntryPoint]:
        """Return the function with the added abilities."""
        (subject,) = self._plain(self._function).subjects()
        return [replace(subject, features=(*subject.features, *self.features))]

    def call(self, call: Call) -> Reply:
        """Pass the call to the plain function by way of `call_function`."""
        plain = {name: value for name, value in call.options.items() if name not in UNSEEN}
        gradients = self.make_dense(call)

        @functools.wraps(self._function.__call__)
        def function(grads: Gradients, **options: Any) -> Any:
            return self.call_function(grads, call, options)

        return self._plain(function).call(replace(call, options=plain, gradients=gradients))

    def make_dense(self, call: Call) -> tuple[Gradient, ...]:
        """Return the gradients in the form that the function takes."""
        return call.gradients

    def call_function(self, grads: Gradients, call: Call, options: dict[str, Any]) -> Any:
        """Call the function with its ability, and return its answer."""
        raise NotImplementedError


class TakesIterators(WithAbilities):
    """Adapter that passes an iterator if a case asks for one."""

    features = ("generator",)

    def call_function(self, grads: Gradients, call: Call, options: dict[str, Any]) -> Any:
        """Call the function on an iterator."""
        return self._function(iter(grads) if call.options.get("as_generator") else grads, **options)


class TakesOne(WithAbilities):
    """Adapter that passes a single array if a case asks for one."""

    features = ("single",)

    def call_function(self, grads: Gradients, call: Call, options: dict[str, Any]) -> Any:
        """Call the function on a single array."""
        return self._function(grads[0] if call.options.get("as_single") else grads, **options)


class Descends(WithAbilities):
    """Adapter that puts the function into an optimizer and makes one step of gradient descent from zero."""

    features = ("optimizer", "learning_rate")

    def call_function(self, grads: Gradients, call: Call, options: dict[str, Any]) -> Any:
        """Return the number that the step subtracts from each parameter."""

        def clip(passed: Gradients) -> Gradients:
            result = self._function(passed, **options)
            return list(result[0] if isinstance(result, tuple) else result)

        return self._function.descend(grads, call.options["learning_rate"], clip)


class Compiles(WithAbilities):
    """Adapter of a function that also has a compiled form."""

    features = ("compiles",)

    def call_function(self, grads: Gradients, call: Call, options: dict[str, Any]) -> Any:
        """Call the form of the function that the call asks for."""
        self._function.is_compiled = call.options.get("compiled", False)
        return self._function(grads, **options)


class TakesRows(WithAbilities):
    """Adapter that turns row-sparse gradients into dense ones before it calls the function."""

    features = ("sparse",)

    def call_function(self, grads: Gradients, call: Call, options: dict[str, Any]) -> Any:
        """Call the function on dense gradients."""
        return self._function(grads, **options)

    def make_dense(self, call: Call) -> tuple[Gradient, ...]:
        """Return each gradient as a dense array, which the function fills from its rows."""
        return tuple(gradient if gradient.rows is None else self._densify(gradient) for gradient in call.gradients)

    def _densify(self, gradient: Gradient) -> Gradient:
        assert gradient.array is not None
        assert gradient.rows is not None
        assert gradient.height is not None
        values = gradient.array.numpy()
        full = np.zeros((gradient.height, *values.shape[1:]), values.dtype)
        self._function.fill(full, values, list(gradient.rows))
        return replace(gradient, array=Array.of(full), rows=None, height=None)


@caught_by("any-iterable", adapter=TakesIterators)
class ListsOnly(ClipFunction):
    """Call `len` on the gradients, which fails for an iterator."""

    def take(self, grads: Any) -> Gradients:
        len(grads)
        return list(grads)


@caught_by("single-tensor", adapter=TakesOne)
class TakesRowsForGradients(ClipFunction):
    """Treat each row of a single array as a gradient of its own."""

    def take(self, grads: Any) -> Gradients:
        return [np.asarray(grad) for grad in np.atleast_1d(grads)] if isinstance(grads, np.ndarray) else list(grads)


class _Descent(ClipFunction):
    """Base of the optimizers, which return the amounts that they subtract from the parameters."""

    def descend(self, grads: Gradients, rate: float, clip: Any) -> Gradients:
        return [rate * grad for grad in clip(grads)]


@caught_by("clip-before-update", adapter=Descends)
class ClipsTheUpdate(_Descent):
    """Clip the gradients after multiplying them by the learning rate."""

    def descend(self, grads: Gradients, rate: float, clip: Any) -> Gradients:
        return list(clip([rate * grad for grad in grads]))


@caught_by("clip-before-update", adapter=Descends)
class Ascends(_Descent):
    """Add the clipped gradients to the parameters instead of subtracting them."""

    def descend(self, grads: Gradients, rate: float, clip: Any) -> Gradients:
        return [-one for one in super().descend(grads, rate, clip)]


class _Fills(ClipFunction):
    """Base of the mutants that build a dense gradient from its rows."""

    def fill(self, full: Values, values: Values, rows: list[int]) -> None:
        np.add.at(full, rows, values)


@caught_by("sparse-rows", adapter=TakesRows)
class FirstRowsInstead(_Fills):
    """Ignore the row indices and fill the first rows of the tensor."""

    def fill(self, full: Values, values: Values, rows: list[int]) -> None:
        super().fill(full, values, list(range(len(rows))))


@caught_by("sparse-duplicate-rows", adapter=TakesRows)
class LastOfEqualRows(_Fills):
    """Keep only the last of the rows that are stored twice."""

    def fill(self, full: Values, values: Values, rows: list[int]) -> None:
        full[rows] = values
