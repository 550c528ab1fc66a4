"""The three operations as objects, called on pairs of a parameter and its gradient as Paddle's classes are."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gradclip_spec import _arguments
from gradclip_spec._functions import clip_by_global_norm, clip_by_norm, clip_by_value

__all__ = ["ClipByGlobalNorm", "ClipByNorm", "ClipByValue"]

Pairs = Iterable[tuple[Any, Any]]


@dataclass(frozen=True)
class ClipByValue:
    max: float
    min: float | None = None

    def __post_init__(self) -> None:
        _arguments.check_bounds(self.max, self.min)

    def __call__(self, pairs: Pairs, /) -> list[tuple[Any, Any]]:
        parameters, gradients, flags = _taken_apart(pairs)
        return list(zip(parameters, clip_by_value(gradients, self.max, self.min, need_clip=flags), strict=True))


@dataclass(frozen=True)
class ClipByNorm:
    clip_norm: float

    def __post_init__(self) -> None:
        _arguments.check_threshold("clip_norm", self.clip_norm)

    def __call__(self, pairs: Pairs, /) -> list[tuple[Any, Any]]:
        parameters, gradients, flags = _taken_apart(pairs)
        return list(zip(parameters, clip_by_norm(gradients, self.clip_norm, need_clip=flags), strict=True))


@dataclass(frozen=True)
class ClipByGlobalNorm:
    clip_norm: float

    def __post_init__(self) -> None:
        _arguments.check_threshold("clip_norm", self.clip_norm)

    def __call__(self, pairs: Pairs, /) -> list[tuple[Any, Any]]:
        parameters, gradients, flags = _taken_apart(pairs)
        clipped, _ = clip_by_global_norm(gradients, self.clip_norm, need_clip=flags)
        return list(zip(parameters, clipped, strict=True))


def _taken_apart(pairs: Pairs) -> tuple[list[Any], list[Any], list[bool]]:
    listed = [tuple(pair) for pair in pairs]
    if any(len(pair) != 2 for pair in listed):
        message = "a policy is called on pairs (parameter, gradient), got an element that is no pair"
        raise TypeError(message)
    parameters = [parameter for parameter, _ in listed]
    flags = [bool(getattr(parameter, "need_clip", True)) for parameter in parameters]
    return parameters, [gradient for _, gradient in listed], flags
