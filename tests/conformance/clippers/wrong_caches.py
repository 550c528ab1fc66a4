"""Clippers that remember what they have reckoned, and by too little."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .steps import Array, Clipper, Gradients, NormClipper
from .table import caught_by


class _Remembers(Clipper):
    """Shared by those that keep results, with the gradients, so that no other object takes their places."""

    def __init__(self) -> None:
        self.kept: dict[Any, tuple[Gradients, Any]] = {}

    def clip_all(self, grads: Gradients, need_clip: Sequence[bool], clip_one: Callable[[int], Array]) -> Any:
        name = self.name_of(grads)
        if name not in self.kept:
            self.kept[name] = (grads, super().clip_all(grads, need_clip, clip_one))
        return self.kept[name][1]

    def name_of(self, grads: Gradients) -> Any:
        """By what a call is found again."""
        return tuple(map(id, grads))


@caught_by("repeatable")
class RemembersByObject(_Remembers):
    """Gives the results of the first call on the same arrays, whatever they hold now."""


@caught_by("repeatable")
class RemembersByObjectAndElements(_Remembers):
    """Gives the results of the first call on the same arrays with the same elements, whatever the threshold is."""

    def name_of(self, grads: Gradients) -> Any:
        return tuple((id(grad), None if grad is None else grad.tobytes()) for grad in grads)


class _RemembersNorms(NormClipper):
    """Shared by those that keep norms."""

    def __init__(self) -> None:
        self.kept: dict[Any, tuple[Sequence[Array], float]] = {}

    def norm(self, tensors: Sequence[Array], p: float) -> float:
        name = (self.name_of(tensors), p)
        if name not in self.kept:
            self.kept[name] = (list(tensors), super().norm(tensors, p))
        return self.kept[name][1]

    def name_of(self, tensors: Sequence[Array]) -> Any:
        """By what a norm is found again."""
        raise NotImplementedError


@caught_by("repeatable")
class RemembersNormsByObject(_RemembersNorms):
    """Takes the norm of the first call on the same arrays, whatever they hold now."""

    def name_of(self, tensors: Sequence[Array]) -> Any:
        return tuple(map(id, tensors))


@caught_by("scaled-above")
class RemembersNormsByShape(_RemembersNorms):
    """Takes the first norm of gradients of the same shapes and dtypes."""

    def name_of(self, tensors: Sequence[Array]) -> Any:
        return tuple((tensor.shape, tensor.dtype) for tensor in tensors)


@caught_by("scaled-above")
class RemembersNormsByFirstElements(_RemembersNorms):
    """Takes the first norm of as many gradients with the same first elements."""

    def name_of(self, tensors: Sequence[Array]) -> Any:
        return tuple(float(tensor.flat[0]) if tensor.size else 0.0 for tensor in tensors)
