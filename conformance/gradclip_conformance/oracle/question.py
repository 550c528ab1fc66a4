"""Define the input of an oracle: gradients, an operation and its options. A case is such an input."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from gradclip_adapters.contract import Gradient

from .formats import FORMATS

__all__ = ["Question", "find_narrowest", "list_norm_groups"]


class Question(Protocol):
    """The parts of a call that determine its result."""

    @property
    def operation(self) -> str:
        """The operation, as the contract names it."""

    @property
    def gradients(self) -> tuple[Gradient, ...]:
        """All gradients, included or not."""

    @property
    def options(self) -> Mapping[str, Any]:
        """The options, as the contract names them."""

    @property
    def dtype(self) -> str:
        """The dtype, or several of them joined by `+`."""

    @property
    def included(self) -> tuple[int, ...]:
        """The indices of the gradients that exist and are not excluded."""

    @property
    def norm_type(self) -> float:
        """The order of the norm."""


def find_narrowest(question: Question) -> str:
    """Return the dtype with the fewest digits among the included gradients."""
    arrays = [question.gradients[i].array for i in question.included]
    names = [array.dtype for array in arrays if array is not None] or [question.dtype.partition("+")[0]]
    return min(names, key=lambda name: FORMATS[name].precision)


def list_norm_groups(question: Question) -> list[list[int]]:
    """Return the groups of gradients that share a norm."""
    if question.operation == "clip_by_global_norm":
        return [list(question.included)]
    return [[i] for i in question.included]
