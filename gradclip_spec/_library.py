"""What the library of the gradients can do: its namespace, its dtypes, and whether values may be looked at."""

import math
import operator
from collections.abc import Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import array_api_compat
import numpy as np

from gradclip_spec import _blocks, _primitives
from gradclip_spec._trees import one_of_each_type

__all__ = ["Library", "Scalars", "dtype_name", "library_of"]

Array = Any

#: The dtypes that can be clipped, and the bits of their significands.
PRECISIONS = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}


@dataclass(frozen=True, eq=False)
class Library:
    """The array library of one call's gradients."""

    xp: Any
    device: Any
    primitives: _primitives.Primitives
    #: Whether values may be looked at: the arrays are neither traced nor lazy, nor on an accelerator.
    eager: bool
    #: The dtype that norms are computed in, and the bits of its significand: float64 wherever it exists.
    work: Any
    precision: int
    #: The dtype of the total norm: the widest among the included gradients, at least float32.
    total: Any
    #: The dtypes of the included gradients, and the names that the standard gives them.
    dtypes: Set[Any]
    names: Set[str]

    @property
    def scalars(self) -> "Scalars":
        """What the norm and the coefficient are computed with."""
        return Scalars(NUMBERS, np.float64, 53) if self.eager else Scalars(self.xp, self.work, self.precision)

    def wide(self, leaves: Sequence[Array]) -> bool:
        """Whether float64 holds the squares of the elements exactly and with room to spare."""
        if self.precision != 53 or "float64" not in self.names:
            return self.precision == 53
        return all(dtype_name(dtype) != "float64" for dtype in {leaf.dtype for leaf in leaves})


@dataclass(frozen=True)
class Scalars:
    """Where the few numbers that decide a clip are computed: in NumPy's float64 if values may be looked at."""

    xp: Any
    dtype: Any
    #: The bits of the significand.
    precision: int

    @property
    def largest_exponent(self) -> int:
        """The exponent range of the dtype."""
        return 1024 if self.precision == 53 else 128


class _Numbers:
    """NumPy, with a short way for single numbers, which it looks at for longer than it computes with them."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def where(self, condition: Any, x: Any, y: Any) -> Any:
        if isinstance(condition, bool | np.bool_):
            return x if condition else y
        return np.where(condition, x, y)

    def isfinite(self, x: Any) -> Any:
        return math.isfinite(x) if isinstance(x, float) else np.isfinite(x)

    def full_like(self, x: Any, value: float) -> Any:
        return np.float64(value) if isinstance(x, float) else np.full_like(x, value)

    def zeros_like(self, x: Any) -> Any:
        return self.full_like(x, 0.0)

    def ones_like(self, x: Any) -> Any:
        return self.full_like(x, 1.0)

    def clip(self, x: Any, lower: float, upper: float) -> Any:
        return np.float64(min(max(x, lower), upper)) if isinstance(x, float) else np.clip(x, lower, upper)


#: Where the few numbers that decide a clip are computed if values may be looked at.
NUMBERS = _Numbers()


def library_of(leaves: Sequence[Array], included: Sequence[Array]) -> Library:
    """The library that all `leaves` belong to; its dtypes are chosen for the `included` ones.

    Raises
    ------
    TypeError
        If the leaves are not arrays, are of several libraries, or hold something else than real floats.
    """
    representatives = one_of_each_type(leaves)
    for leaf in representatives:
        if not array_api_compat.is_array_api_obj(leaf):
            message = (
                f"gradients must be arrays of a library that array-api-compat knows, or None; got a "
                f"{type(leaf).__module__}.{type(leaf).__qualname__}; make a number an array, take a container apart "
                f"or register it with optree"
            )
            raise TypeError(message)
    namespaces = {array_api_compat.array_namespace(leaf) for leaf in representatives}
    if len(namespaces) > 1:
        types = " and ".join(sorted(f"{type(leaf).__module__}.{type(leaf).__qualname__}" for leaf in representatives))
        message = f"gradients must all be of one array library, got {types}; convert them to one first"
        raise TypeError(message)
    (xp,) = namespaces
    dtypes = set(map(operator.attrgetter("dtype"), included))
    names = set(map(dtype_name, dtypes))
    if not names <= PRECISIONS.keys():
        message = (
            f"gradients must be of dtype {', '.join(PRECISIONS)}, got {', '.join(sorted(names - PRECISIONS.keys()))}; "
            f"convert them first, or exclude them with `need_clip`"
        )
        raise TypeError(message)
    primitives = _primitives.of(xp, _blocks.are_sharded(included))
    strange = primitives.strange(included)
    if strange:
        message = f"gradients must be plain dense arrays, got {strange} first, or exclude it with `need_clip`"
        raise TypeError(message)
    device = primitives.device((included or leaves)[0])
    with primitives.context():
        has_float64 = "float64" in names or _has_float64(xp, device)
    return Library(
        xp=xp,
        device=device,
        primitives=primitives,
        eager=primitives.eager(included or leaves),
        work=xp.float64 if has_float64 else xp.float32,
        precision=53 if has_float64 else 24,
        total=xp.float64 if "float64" in names else xp.float32,
        dtypes=dtypes,
        names=names,
    )


def dtype_name(dtype: Any) -> str:
    """The standard's name of a dtype, whatever the library calls it."""
    # NumPy's own functions take the scalar types as dtypes, and those carry the name of a class.
    return str(getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype).rpartition(".")[2])


@lru_cache
def _has_float64(xp: Any, device: Any) -> bool:
    if not hasattr(xp, "__array_namespace_info__"):
        return hasattr(xp, "float64")
    return "float64" in xp.__array_namespace_info__().dtypes(device=device, kind="real floating")
