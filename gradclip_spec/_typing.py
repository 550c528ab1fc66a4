"""Define the types of arguments and results."""

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias, TypeVar

__all__ = ["Array", "ArrayTree", "NeedClip", "T"]

#: An array of any library that array-api-compat knows. The libraries share no base class.
Array: TypeAlias = Any

#: A tree of gradients: an array, None, or a container of such trees.
ArrayTree: TypeAlias = Any

#: The type of a tree that is passed. The clipped tree has the same type.
T = TypeVar("T")

#: Which gradients are included: a tree of flags, a predicate of path and array, or a set of names to exclude.
NeedClip: TypeAlias = Callable[[str, Array], bool] | Iterable[Any] | bool | None
