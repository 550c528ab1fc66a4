"""What the library of the gradients can do: its namespace, its dtypes, and whether values may be looked at."""

import operator
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import array_api_compat
import numpy as np

from gradclip_spec import _devices, _dtensors, _primitives
from gradclip_spec._scalars import FORMATS, NUMPY_SCALARS, Format, Scalars, dtype_name
from gradclip_spec._trees import one_of_each_type

__all__ = ["Library", "library_of"]

Array = Any


@dataclass(frozen=True, eq=False)
class Library:
    """The array library of one call's gradients."""

    xp: Any
    device: Any
    primitives: _primitives.Primitives
    #: Whether values may be looked at.
    eager: bool
    #: Whether there is float64.
    has_float64: bool
    #: The dtype of the total norm: the widest among the included gradients, at least float32.
    total_dtype: Any
    #: The dtypes of the included gradients, with the names that the standard gives them.
    dtypes: Mapping[Any, str]

    @property
    def work_dtype(self) -> Any:
        """The dtype of exact work: float64 wherever it exists, else float32."""
        return self.xp.float64 if self.has_float64 else self.xp.float32

    @property
    def work_format(self) -> Format:
        """The format of that dtype."""
        return FORMATS["float64" if self.has_float64 else "float32"]

    @property
    def precision(self) -> int:
        """The bits of its significand."""
        return self.work_format.precision

    @property
    def in_blocks(self) -> bool:
        """Whether arrays are looked at block by block: shards, or the arrays of each device. Dask's are not asked."""
        return self.primitives.rows_of_blocks is not None

    @property
    def scalars(self) -> Scalars:
        """What the norm and the coefficient are computed with: NumPy's float64 if values may be looked at."""
        if self.eager:
            return NUMPY_SCALARS
        power = self.xp.pow if "float64" in self.dtypes.values() else self.primitives.power or self.xp.pow
        return Scalars(self.xp, self.work_format, power)

    def number(self, value: float) -> Array:
        """A number to compute a norm with."""
        if self.eager:
            return np.float64(value)
        return self.xp.asarray(value, dtype=self.work_dtype, device=self.device)

    def narrower_than_float64(self, arrays: Sequence[Array]) -> bool:
        """Whether there is float64, and all arrays are narrower: it holds their squares, with bits to spare."""
        if "float64" not in self.dtypes.values():
            return self.has_float64
        return all(self.dtypes[array.dtype] != "float64" for array in arrays)


def library_of(arrays: Sequence[Array], included: Sequence[Array]) -> Library:
    """The library that all `arrays` belong to; its dtypes and device are those of the `included` ones, if any.

    Raises
    ------
    TypeError
        If they are not arrays, are of several libraries, hold something else than real floats, or are masked, sparse,
        or DTensors that cannot be clipped.
    """
    if len(included) < len(arrays):
        # The derivative by an integer, as JAX has it, is an array of NumPy that holds nothing.
        arrays = [x for x in arrays if getattr(getattr(x, "dtype", None), "names", None) != ("float0",)] or arrays
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
    dtypes = {dtype: dtype_name(dtype) for dtype in set(map(operator.attrgetter("dtype"), included))}
    names = set(dtypes.values())
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
    eager = primitives.eager(included or arrays)
    if array_api_compat.is_torch_namespace(xp) and not eager and len({array.device for array in included}) > 1:
        primitives = _devices.on_devices(primitives, device)
    return Library(
        xp=xp,
        device=device,
        primitives=primitives,
        eager=eager,
        has_float64="float64" in names or _has_float64(xp, device, primitives),
        total_dtype=xp.float64 if "float64" in names else xp.float32,
        dtypes=dtypes,
    )


@lru_cache
def _has_float64(xp: Any, device: Any, primitives: _primitives.Primitives) -> bool:
    if not hasattr(xp, "__array_namespace_info__"):
        return hasattr(xp, "float64")
    # Outside of its context, JAX may have none.
    with primitives.context():
        return "float64" in xp.__array_namespace_info__().dtypes(device=device, kind="real floating")
