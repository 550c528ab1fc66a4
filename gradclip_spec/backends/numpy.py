"""Define the backends of NumPy arrays, and of arrays of the library sparse, which hold NumPy arrays."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradclip_spec import kernels
from gradclip_spec.backends.base import NO_WRITING, Backend
from gradclip_spec.backends.in_memory import InMemory

Array = Any


class NumPy(InMemory, Backend):
    """The backend of NumPy arrays, including ml_dtypes' bfloat16."""

    def find_problem(self, arrays: Sequence[Array], inplace: bool) -> tuple[int, str] | None:
        """Return an array that is masked or read-only (NumPy's scalars are read-only)."""
        # The module is slow to import. If there is a masked array, it has been imported already.
        masked = sys.modules["numpy.ma"].MaskedArray if "numpy.ma" in sys.modules else ()
        for index, x in enumerate(arrays):
            if isinstance(x, masked):
                # Different ways of reading the array disagree on whether masked elements count.
                return index, "{} is a masked array; fill the masked elements (`filled`) first"
            if inplace and not x.flags.writeable:
                return index, NO_WRITING.format("{}", "it is read-only")
        return None

    def limit(self, x: Array, lower: float, upper: float, inplace: bool) -> Array:
        out = x if inplace else np.empty_like(x)
        # The method takes half the time of NumPy's function.
        x.clip(x.dtype.type(lower), x.dtype.type(upper), out=out)
        return out

    def is_within(self, x: Array, lower: float, upper: float) -> bool:
        return bool(lower <= x.min() and x.max() <= upper)

    def make_like(self, arrays: Sequence[Array]) -> list[Array]:
        """Return new, uninitialised arrays with the layout of others."""
        # The function of array-api-compat takes longer, because it checks the device of each array.
        return list(map(np.empty_like, arrays))

    def measure(self, arrays: Sequence[Array]) -> list[int]:
        return [x.size for x in arrays]

    def view(self, arrays: Sequence[Array]) -> list[Array]:
        """Return the arrays. For bfloat16, return their bits."""
        if "bfloat16" not in self.dtypes.values():
            return list(arrays)
        return [x.view(np.uint16) if self.dtypes[x.dtype] == "bfloat16" else x for x in arrays]

    def locate(self, arrays: Sequence[Array]) -> list[int]:
        """Return the address of each array, or 0 if it does not lie in one piece, in native byte order."""
        addresses = kernels.find_addresses(arrays)
        foreign = [dtype for dtype in self.dtypes if not dtype.isnative]
        if foreign or any(issubclass(kind, np.generic) for kind in set(map(type, arrays))):
            # A scalar of NumPy holds its element where an array holds the address of its elements.
            whole = [isinstance(x, np.ndarray) and x.flags.forc and x.dtype not in foreign for x in arrays]
        else:
            whole = [x.flags.forc for x in arrays]
        return [address if one_piece else 0 for address, one_piece in zip(addresses, whole, strict=True)]


class Sparse(NumPy):
    """The backend of arrays of the library sparse that keep elements in `data` (COO, GCXS) and are zero elsewhere."""

    def find_problem(self, arrays: Sequence[Array], inplace: bool) -> tuple[int, str] | None:
        """Return an array that has no `data`, or that is not zero where it stores no element."""
        for index, x in enumerate(arrays):
            if not isinstance(getattr(x, "data", None), np.ndarray):
                return index, "{} is a sparse array without `data`; convert it (`asformat('coo')`) first"
            if x.fill_value != 0:
                return index, "{} is a sparse array whose fill value is not zero; call `todense` first"
        return Backend.find_problem(self, arrays, inplace)

    def clip(self, x: Array, lower: float, upper: float, inplace: bool) -> Array:
        return self.xp.clip(x, lower, upper)

    def make_like(self, arrays: Sequence[Array]) -> list[Array]:
        """Return new arrays with elements at the same places."""
        return [x.copy() for x in arrays]

    def measure(self, arrays: Sequence[Array]) -> list[int]:
        """Return the number of elements that each array holds."""
        return [x.data.size for x in arrays]

    def view(self, arrays: Sequence[Array]) -> list[Array]:
        """Return the elements that each array holds."""
        return [x.data for x in arrays]

    def locate(self, arrays: Sequence[Array]) -> list[int]:
        """Return the address of the elements of each array, or 0 if they do not lie in one piece."""
        return super().locate(self.view(arrays))
