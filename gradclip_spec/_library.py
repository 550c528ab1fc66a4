"""What the library of the gradients can do: its namespace, its dtypes, and whether values may be looked at."""

import math
import operator
from collections.abc import Callable, Sequence, Set
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import array_api_compat
import numpy as np

from gradclip_spec import _dtensors, _primitives
from gradclip_spec._trees import one_of_each_type

__all__ = ["FORMATS", "NUMPY_SCALARS", "Library", "Scalars", "dtype_name", "library_of", "rounded"]

Array = Any


@dataclass(frozen=True)
class Format:
    """A floating-point format."""

    #: The bits of the significand.
    precision: int
    #: The exponents of the smallest and of the largest normal numbers, as of a fraction from 0.5 to 1.
    smallest: int
    largest: int


#: The dtypes that can be clipped.
FORMATS = {
    "float16": Format(11, -13, 16),
    "bfloat16": Format(8, -125, 128),
    "float32": Format(24, -125, 128),
    "float64": Format(53, -1021, 1024),
}


@dataclass(frozen=True, eq=False)
class Library:
    """The array library of one call's gradients."""

    xp: Any
    device: Any
    primitives: _primitives.Primitives
    #: Whether values may be looked at: the arrays are neither traced nor lazy, nor on an accelerator.
    eager: bool
    #: The dtype that norms are computed in, and its format: float64 wherever it exists, else float32.
    work_dtype: Any
    work_format: Format
    #: The dtype of the total norm: the widest among the included gradients, at least float32.
    total_dtype: Any
    #: The dtypes of the included gradients, and the names that the standard gives them.
    dtypes: Set[Any]
    dtype_names: Set[str]

    @property
    def precision(self) -> int:
        """The bits of the significand of what norms are computed in."""
        return self.work_format.precision

    @property
    def has_float64(self) -> bool:
        """Whether there is float64 to compute norms in."""
        return self.work_format is FORMATS["float64"]

    @property
    def scalars(self) -> "Scalars":
        """What the norm and the coefficient are computed with."""
        if self.eager:
            return NUMPY_SCALARS
        return Scalars(self.xp, self.work_format, self.primitives.power or self.xp.pow)

    def number(self, value: float) -> Array:
        """A number in the dtype that norms are computed in."""
        if self.eager:
            return np.float64(value)
        return self.xp.asarray(value, dtype=self.work_dtype, device=self.device)

    def wider_than(self, arrays: Sequence[Array]) -> bool:
        """Whether there is float64 and the arrays are narrower: it holds their squares exactly, with room to spare."""
        if "float64" not in self.dtype_names:
            return self.has_float64
        return all(dtype_name(dtype) != "float64" for dtype in {array.dtype for array in arrays})


@dataclass(frozen=True)
class Scalars:
    """Where the few numbers that decide a clip are computed: in NumPy's float64 if values may be looked at."""

    xp: Any
    format: Format
    #: A number above zero to the power of another.
    power: Callable[[Any, Any], Any]

    @property
    def precision(self) -> int:
        """The bits of the significand."""
        return self.format.precision

    @property
    def negligible_exponent(self) -> float:
        """Two to this is a normal number, and counts for nothing beside 1."""
        return -15.0 / 16 * self.format.largest


class _Numbers:
    """NumPy, with short ways for single numbers: its own functions take longer to look at one than to compute."""

    def __getattr__(self, name: str) -> Any:
        return getattr(np, name)

    def unstack(self, x: Any) -> Any:
        # NumPy has a function for it from 2.1 on.
        return tuple(x)

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
NUMPY_SCALARS = Scalars(_Numbers(), FORMATS["float64"], np.pow)


def library_of(arrays: Sequence[Array], included: Sequence[Array]) -> Library:
    """The library that all `arrays` belong to; its dtypes and device are those of the `included` ones, if any.

    Raises
    ------
    TypeError
        If they are not arrays, are of several libraries, or hold something else than real floats.
    """
    representatives = one_of_each_type(arrays)
    for array in representatives:
        if not array_api_compat.is_array_api_obj(array):
            message = (
                f"gradients must be arrays of a library that array-api-compat knows, or None; got a "
                f"{type(array).__module__}.{type(array).__qualname__}; make a number an array, take a container apart "
                f"or register it with optree"
            )
            raise TypeError(message)
    namespaces = {array_api_compat.array_namespace(array) for array in representatives}
    if len(namespaces) > 1:
        types = sorted(f"{type(array).__module__}.{type(array).__qualname__}" for array in representatives)
        message = f"gradients must all be of one array library, got {' and '.join(types)}; convert them to one first"
        raise TypeError(message)
    (xp,) = namespaces
    dtypes = set(map(operator.attrgetter("dtype"), included))
    names = set(map(dtype_name, dtypes))
    if not names <= FORMATS.keys():
        message = (
            f"gradients must be of dtype {', '.join(FORMATS)}, got {', '.join(sorted(names - FORMATS.keys()))}; "
            f"convert them first, or exclude them with `need_clip`"
        )
        raise TypeError(message)
    primitives = _primitives.of(xp)
    if _dtensors.are_dtensors(included):
        primitives = _dtensors.on_shards(primitives)
    strange = primitives.strange(included)
    if strange:
        message = f"gradients must be plain dense arrays, got {strange} first, or exclude it with `need_clip`"
        raise TypeError(message)
    device = primitives.device((included or arrays)[0])
    has_float64 = "float64" in names or _has_float64(xp, device, primitives)
    return Library(
        xp=xp,
        device=device,
        primitives=primitives,
        eager=primitives.eager(included or arrays),
        work_dtype=xp.float64 if has_float64 else xp.float32,
        work_format=FORMATS["float64" if has_float64 else "float32"],
        total_dtype=xp.float64 if "float64" in names else xp.float32,
        dtypes=dtypes,
        dtype_names=names,
    )


def dtype_name(dtype: Any) -> str:
    """The standard's name of a dtype, whatever the library calls it."""
    # NumPy's own functions take the scalar types as dtypes, and those carry the name of a class.
    return str(getattr(dtype, "name", None) or getattr(dtype, "__name__", None) or str(dtype).rpartition(".")[2])


@lru_cache
def rounded(value: float, name: str) -> float:
    """A number rounded to the dtype of a name."""
    if not math.isfinite(value):
        return value
    form = FORMATS[name]
    place = max(math.frexp(value)[1], form.smallest) - form.precision
    result = math.ldexp(round(math.ldexp(value, -place)), place)
    return result if math.frexp(result)[1] <= form.largest else math.copysign(math.inf, result)


@lru_cache
def _has_float64(xp: Any, device: Any, primitives: _primitives.Primitives) -> bool:
    if not hasattr(xp, "__array_namespace_info__"):
        return hasattr(xp, "float64")
    # Outside of its context, JAX may have none.
    with primitives.context():
        return "float64" in xp.__array_namespace_info__().dtypes(device=device, kind="real floating")
