"""Define clippers that reuse the result of an earlier, different call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .steps import Array, Clipper, Gradients, NormClipper
from .table import caught_by


class _Remembers(Clipper):
    """Base of the clippers that keep results. They keep the gradients too, so that Python cannot reuse an id."""

    def __init__(self) -> None:
        self.kept: dict[Any, tuple[Gradients, Any]] = {}

    def clip_all(self, grads: Gradients, need_clip: Sequence[bool], clip_one: Callable[[int], Array]) -> Any:
        name = self.make_key(grads)
        if name not in self.kept:
            self.kept[name] = (grads, super().clip_all(grads, need_clip, clip_one))
        return self.kept[name][1]

    def make_key(self, grads: Gradients) -> Any:
        """Return the key under which the result of a call is kept."""
        return tuple(map(id, grads))


@caught_by("repeatable")
class RemembersByObject(_Remembers):
    """Repeat the first result for the same array objects, even if their elements have changed."""


@caught_by("repeatable")
class RemembersByObjectAndElements(_Remembers):
    """Repeat the first result for the same arrays and elements, even if the threshold has changed."""

    def make_key(self, grads: Gradients) -> Any:
        return tuple((id(grad), None if grad is None else grad.tobytes()) for grad in grads)


class _RemembersNorms(NormClipper):
    """Base of the clippers that keep norms."""

    def __init__(self) -> None:
        self.kept: dict[Any, tuple[Sequence[Array], float]] = {}

    def compute_norm(self, tensors: Sequence[Array], p: float) -> float:
        name = (self.make_key(tensors), p)
        if name not in self.kept:
            self.kept[name] = (list(tensors), super().compute_norm(tensors, p))
        return self.kept[name][1]

    def make_key(self, tensors: Sequence[Array]) -> Any:
        """Return the key under which a norm is kept."""
        raise NotImplementedError


@caught_by("repeatable")
class RemembersNormsByObject(_RemembersNorms):
    """Reuse the first norm of the same array objects, even if their elements have changed."""

    def make_key(self, tensors: Sequence[Array]) -> Any:
        return tuple(map(id, tensors))


@caught_by("scaled-above")
class RemembersNormsByShape(_RemembersNorms):
    """Reuse the first norm for all gradients of the same shapes and dtypes."""

    def make_key(self, tensors: Sequence[Array]) -> Any:
        return tuple((tensor.shape, tensor.dtype) for tensor in tensors)


@caught_by("scaled-above")
class RemembersNormsByFirstElements(_RemembersNorms):
    """Reuse the first norm for all lists whose gradients have the same first elements."""

    def make_key(self, tensors: Sequence[Array]) -> Any:
        return tuple(float(tensor.flat[0]) if tensor.size else 0.0 for tensor in tensors)
