"""Offer the operations as objects that, like Paddle's classes, are called on pairs of a parameter and a gradient."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import array_api_compat

from gradclip_spec._clip import clip_by_global_norm, clip_by_norm, clip_by_value
from gradclip_spec._inputs import Array, check_bounds, check_number

Pairs = Iterable[tuple[Any, Any]]


class _Policy:
    """A clip that is called on pairs."""

    def __call__(self, pairs: Pairs, /) -> list[tuple[Any, Any]]:
        """Return the pairs with their gradients clipped."""
        parameters, gradients, flags = _take_apart(pairs)
        return list(zip(parameters, self._clip(gradients, flags), strict=True))

    def _clip(self, gradients: list[Array], flags: list[bool]) -> Sequence[Array]:
        raise NotImplementedError


@dataclass(frozen=True)
class ClipByValue(_Policy):
    """Clip by value, with fixed bounds.

    Parameters
    ----------
    max : float
        The upper bound.
    min : float, optional
        The lower bound; `-max` if it is left out.

    Raises
    ------
    TypeError
        If a bound is not a number.
    ValueError
        If the bounds contradict each other; see :func:`clip_by_value`.

    Notes
    -----
    The object is called with pairs `(parameter, gradient)` and returns a list of pairs with the clipped gradients. A
    parameter whose attribute `need_clip` is false is excluded; a gradient that is None stays None. Objects with equal
    arguments are equal. To get the norm, or to use `eps` or another norm, call the functions.

    Source: Paddle's `ClipGradByValue(max, min=None)`.

    Examples
    --------
    >>> import numpy as np
    >>> ClipByValue(max=1.0)([("weight", np.array([3.0, -0.5])), ("bias", None)])
    [('weight', array([ 1. , -0.5])), ('bias', None)]
    """

    max: float
    min: float | None = None

    def __post_init__(self) -> None:
        """Refuse bad bounds now, before the training loop."""
        check_bounds(self.max, self.min)

    def _clip(self, gradients: list[Array], flags: list[bool]) -> Sequence[Array]:
        return clip_by_value(gradients, self.max, self.min, need_clip=flags)


@dataclass(frozen=True)
class _ByThreshold(_Policy):
    """A clip with a fixed threshold."""

    clip_norm: float

    def __post_init__(self) -> None:
        """Refuse a bad threshold now, before the training loop."""
        check_number("clip_norm", self.clip_norm)


class ClipByNorm(_ByThreshold):
    """Clip each gradient by its own norm, with a fixed threshold.

    Parameters
    ----------
    clip_norm : float
        The threshold, zero or more.

    Raises
    ------
    TypeError
        If the threshold is not a number.
    ValueError
        If the threshold is negative or NaN.

    Notes
    -----
    The object is called with pairs; see :class:`ClipByValue`.

    Source: Paddle's `ClipGradByNorm(clip_norm)`.

    Examples
    --------
    >>> import numpy as np
    >>> ClipByNorm(1.0)([("weight", np.array([3.0, 4.0])), ("bias", np.array([0.5]))])
    [('weight', array([0.6, 0.8])), ('bias', array([0.5]))]
    """

    def _clip(self, gradients: list[Array], flags: list[bool]) -> Sequence[Array]:
        return clip_by_norm(gradients, self.clip_norm, need_clip=flags)


class ClipByGlobalNorm(_ByThreshold):
    """Clip all gradients by their common norm, with a fixed threshold.

    Parameters
    ----------
    clip_norm : float
        The threshold, zero or more.

    Raises
    ------
    TypeError
        If the threshold is not a number.
    ValueError
        If the threshold is negative or NaN.

    Notes
    -----
    The object is called with pairs; see :class:`ClipByValue`. Excluded gradients do not count in the norm.

    Source: Paddle's `ClipGradByGlobalNorm(clip_norm)`.

    Examples
    --------
    >>> import numpy as np
    >>> policy = ClipByGlobalNorm(1.0)
    >>> policy
    ClipByGlobalNorm(clip_norm=1.0)
    >>> policy([("weight", np.array([3.0])), ("bias", np.array([4.0]))])
    [('weight', array([0.6])), ('bias', array([0.8]))]
    """

    def _clip(self, gradients: list[Array], flags: list[bool]) -> Sequence[Array]:
        return clip_by_global_norm(gradients, self.clip_norm, need_clip=flags)[0]


def _take_apart(pairs: Pairs) -> tuple[list[Any], list[Any], list[bool]]:
    wanted, hint = "a policy is called on pairs (parameter, gradient), got", "give e.g. zip(parameters, gradients)"
    if isinstance(pairs, Mapping) or not isinstance(pairs, Iterable):
        message = f"{wanted} a {type(pairs).__name__}; {hint}, or the items of a dict"
        raise TypeError(message)
    listed = list(pairs)
    for pair in listed:
        # Do not mistake an array of two rows for a pair.
        if not isinstance(pair, tuple | list):
            message = f"{wanted} a {type(pair).__name__} among them; {hint}"
            raise TypeError(message)
        if len(pair) != 2:
            message = f"{wanted} one of {len(pair)} elements; {hint}"
            raise ValueError(message)
    parameters, gradients = [pair[0] for pair in listed], [pair[1] for pair in listed]
    for gradient in {type(gradient): gradient for gradient in gradients}.values():
        if gradient is not None and not array_api_compat.is_array_api_obj(gradient):
            message = f"the gradient of a pair must be an array or None, got a {type(gradient).__name__}"
            raise TypeError(message)
    return parameters, gradients, [bool(getattr(parameter, "need_clip", True)) for parameter in parameters]
