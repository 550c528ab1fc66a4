"""Clippers that are wrong with iterators, in an optimizer, or compiled: abilities that no signature shows."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from gradclip_adapters.contract import About, Adapter, Array, Call, Gradient, Reply, Subject
from gradclip_adapters.plain import PlainFunction

from .steps import Array as Values
from .steps import Clipper, Gradients
from .table import caught_by

#: The options that the function itself is not given.
UNSEEN = ("as_generator", "as_single", "learning_rate", "compiled")


class _WithAbilities(Adapter):
    """A plain function that can do what no signature shows."""

    features: ClassVar[tuple[str, ...]]

    def __init__(self, function: Any, operation: str, dtypes: Sequence[str], in_place: bool | None) -> None:
        self._function = function
        self._plain = functools.partial(PlainFunction, operation=operation, dtypes=dtypes, in_place=in_place)

    def about(self) -> About:
        """That of the function."""
        return self._plain(self._function).about()

    def subjects(self) -> Sequence[Subject]:
        """The function, with the abilities."""
        (subject,) = self._plain(self._function).subjects()
        return [replace(subject, features=(*subject.features, *self.features))]

    def call(self, call: Call) -> Reply:
        """The function, called in its own way."""
        plain = {name: value for name, value in call.options.items() if name not in UNSEEN}
        gradients = self.dense(call)

        @functools.wraps(self._function.__call__)
        def function(grads: Gradients, **options: Any) -> Any:
            return self.called(grads, call, options)

        return self._plain(function).call(replace(call, options=plain, gradients=gradients))

    def dense(self, call: Call) -> tuple[Gradient, ...]:
        """The gradients as the function takes them."""
        return call.gradients

    def called(self, grads: Gradients, call: Call, options: dict[str, Any]) -> Any:
        """What the function returns for these gradients."""
        raise NotImplementedError


class TakesIterators(_WithAbilities):
    """A function that is given an iterator where a case asks for one."""

    features = ("generator",)

    def called(self, grads: Gradients, call: Call, options: dict[str, Any]) -> Any:
        """The function on an iterator."""
        return self._function(iter(grads) if call.options.get("as_generator") else grads, **options)


class TakesOne(_WithAbilities):
    """A function that is given an array where a case asks for it."""

    features = ("single",)

    def called(self, grads: Gradients, call: Call, options: dict[str, Any]) -> Any:
        """The function on one array."""
        return self._function(grads[0] if call.options.get("as_single") else grads, **options)


class Descends(_WithAbilities):
    """A function in an optimizer: one step of gradient descent from zero, and minus the parameters."""

    features = ("optimizer", "learning_rate")

    def called(self, grads: Gradients, call: Call, options: dict[str, Any]) -> Any:
        """What is subtracted from the parameters."""

        def clip(passed: Gradients) -> Gradients:
            result = self._function(passed, **options)
            return list(result[0] if isinstance(result, tuple) else result)

        return self._function.descend(grads, call.options["learning_rate"], clip)


class Compiles(_WithAbilities):
    """A function that has another form, compiled."""

    features = ("compiles",)

    def called(self, grads: Gradients, call: Call, options: dict[str, Any]) -> Any:
        """The function in the form that the call asks for."""
        self._function.is_compiled = call.options.get("compiled", False)
        return self._function(grads, **options)


class TakesRows(_WithAbilities):
    """A function that is given row-sparse gradients in full."""

    features = ("sparse",)

    def called(self, grads: Gradients, call: Call, options: dict[str, Any]) -> Any:
        """The function on dense gradients."""
        return self._function(grads, **options)

    def dense(self, call: Call) -> tuple[Gradient, ...]:
        """Each gradient in full, as the function makes it of its rows."""
        return tuple(gradient if gradient.rows is None else self._full(gradient) for gradient in call.gradients)

    def _full(self, gradient: Gradient) -> Gradient:
        assert gradient.array is not None
        assert gradient.rows is not None
        assert gradient.height is not None
        values = gradient.array.numpy()
        full = np.zeros((gradient.height, *values.shape[1:]), values.dtype)
        self._function.fill(full, values, list(gradient.rows))
        return replace(gradient, array=Array.of(full), rows=None, height=None)


@caught_by("any-iterable", adapter=TakesIterators)
class ReadsTwice(Clipper):
    """Counts the gradients first, and finds none left."""

    def taken(self, grads: Any) -> Gradients:
        sum(1 for _ in grads)
        return list(grads)


@caught_by("any-iterable", adapter=TakesIterators)
class ListsOnly(Clipper):
    """Asks what it was given for its length."""

    def taken(self, grads: Any) -> Gradients:
        len(grads)
        return list(grads)


@caught_by("any-iterable", adapter=TakesIterators)
class LooksAtTheFirst(Clipper):
    """Takes the first gradient's dtype, and loses that gradient."""

    def taken(self, grads: Any) -> Gradients:
        next(iter(grads), None)
        return list(grads)


@caught_by("single-tensor", adapter=TakesOne)
class TakesRowsForGradients(Clipper):
    """Goes through the rows of a single array as if each were a gradient."""

    def taken(self, grads: Any) -> Gradients:
        return [np.asarray(grad) for grad in np.atleast_1d(grads)] if isinstance(grads, np.ndarray) else list(grads)


@caught_by("single-tensor", adapter=TakesOne)
class RefusesOne(Clipper):
    """Takes lists alone."""

    def taken(self, grads: Any) -> Gradients:
        if isinstance(grads, np.ndarray):
            message = "give a list of arrays"
            raise TypeError(message)
        return list(grads)


class _Descent(Clipper):
    """Shared by the optimizers: what is subtracted from the parameters."""

    def descend(self, grads: Gradients, rate: float, clip: Any) -> Gradients:
        return [rate * grad for grad in clip(grads)]


@caught_by("clip-before-update", adapter=Descends)
class ClipsTheUpdate(_Descent):
    """Multiplies by the learning rate, and clips then."""

    def descend(self, grads: Gradients, rate: float, clip: Any) -> Gradients:
        return list(clip([rate * grad for grad in grads]))


@caught_by("clip-before-update", adapter=Descends)
class ClipsAfterTheUpdate(_Descent):
    """Updates with gradients that it clips once they are used."""

    def descend(self, grads: Gradients, rate: float, clip: Any) -> Gradients:
        update = [rate * grad for grad in grads]
        clip(grads)
        return update


@caught_by("clip-before-update", adapter=Descends)
class Ascends(_Descent):
    """Adds the clipped gradients instead of subtracting them."""

    def descend(self, grads: Gradients, rate: float, clip: Any) -> Gradients:
        return [-one for one in super().descend(grads, rate, clip)]


@caught_by("clip-before-update", adapter=Descends)
class IgnoresTheRate(_Descent):
    """Subtracts the clipped gradients as they are."""

    def descend(self, grads: Gradients, rate: float, clip: Any) -> Gradients:
        return super().descend(grads, 1.0, clip)


class _Fills(Clipper):
    """Shared by those that make a gradient in full of its rows."""

    def fill(self, full: Values, values: Values, rows: list[int]) -> None:
        np.add.at(full, rows, values)


@caught_by("sparse-rows", adapter=TakesRows)
class FirstRowsInstead(_Fills):
    """Puts the rows where the first ones are, and forgets which they are."""

    def fill(self, full: Values, values: Values, rows: list[int]) -> None:
        super().fill(full, values, list(range(len(rows))))


@caught_by("sparse-rows", adapter=TakesRows)
class LastRowOnly(_Fills):
    """Keeps the last row alone."""

    def fill(self, full: Values, values: Values, rows: list[int]) -> None:
        super().fill(full, values[-1:], rows[-1:])


@caught_by("global-norm.sparse-rows", adapter=TakesRows)
class RowsTwice(_Fills):
    """Adds each row twice."""

    def fill(self, full: Values, values: Values, rows: list[int]) -> None:
        super().fill(full, values, rows)
        super().fill(full, values, rows)
