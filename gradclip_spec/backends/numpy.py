"""The backends of NumPy arrays, and of the arrays of sparse, which hold NumPy arrays."""

import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradclip_spec.backends.base import Backend
from gradclip_spec.backends.in_memory import InMemory
from gradclip_spec.kernels import threads

__all__ = ["NumPy", "Sparse"]

Array = Any


class NumPy(InMemory, Backend):
    """NumPy arrays, those of ml_dtypes' bfloat16 too."""

    def find_device(self, x: Array) -> Any:
        """Return nothing: there is one device."""
        return None

    def is_eager(self, arrays: Sequence[Array]) -> bool:
        """Return that values may be looked at."""
        return True

    def supports_float64(self) -> bool:
        """Return that there is float64."""
        return True

    def explain_refusal(self, x: Array) -> str:
        """Report masked arrays: whether masked elements count would depend on how they are read."""
        # The module is slow to import, and who has a masked array has imported it.
        module = sys.modules.get("numpy.ma")
        masked = module is not None and isinstance(x, module.MaskedArray)
        return "a masked array; fill what is masked (`filled`)" if masked else ""

    def explain_read_only(self, arrays: Sequence[Array]) -> dict[int, str]:
        """Return which arrays are read-only; NumPy's scalars are."""
        return {index: "it is read-only" for index, x in enumerate(arrays) if not x.flags.writeable}

    def clip(self, x: Array, lower: float, upper: float, inplace: bool) -> Array:
        """Return an array within bounds that its dtype holds exactly."""
        if lower <= np.min(x) and np.max(x) <= upper:
            return x
        out = x if inplace else np.empty_like(x)
        np.clip(x, x.dtype.type(lower), x.dtype.type(upper), out=out)
        return out

    def make_like(self, x: Array) -> Array:
        """Return a new array of the layout of another."""
        return np.empty_like(x)

    def make_number(self, value: float) -> Array:
        """Return a number as an array without dimensions."""
        return np.asarray(value, self.total_dtype)

    def name_dtype(self, x: Array) -> str:
        """Return the name of the dtype of an array."""
        return self.dtypes[x.dtype]

    def count(self, x: Array) -> int:
        """Return the number of elements."""
        return x.size

    def is_dense(self, x: Array) -> bool:
        """Return whether the elements lie in one piece, in the byte order of the machine."""
        return x.flags.forc and x.dtype.isnative

    def locate(self, x: Array) -> int:
        """Return the address of the first element."""
        address: int = x.__array_interface__["data"][0]
        return address

    def view(self, x: Array) -> Array:
        """Return the array; of bfloat16 its bits."""
        return x.view(np.uint16) if self.dtypes[x.dtype] == "bfloat16" else x

    def count_threads(self) -> int:
        """Return how many threads may work."""
        return threads.count_available()


class Sparse(NumPy):
    """Arrays of sparse that keep their elements as `data` (COO, GCXS) and have zeros elsewhere."""

    def explain_refusal(self, x: Array) -> str:
        """Report arrays without `data`, and with something else than zeros where they hold no element."""
        if not hasattr(x, "data") or not isinstance(x.data, np.ndarray):
            return "a sparse array without `data`; convert it (`asformat('coo')`)"
        return "" if x.fill_value == 0 else "a sparse array filled with something else than zeros; call `todense`"

    def explain_read_only(self, arrays: Sequence[Array]) -> dict[int, str]:
        """Return that no array can be written into."""
        return dict.fromkeys(range(len(arrays)), "arrays of its library cannot be written into")

    def make_like(self, x: Array) -> Array:
        """Return a new array with elements at the same places."""
        return x.copy()

    def make_number(self, value: float) -> Array:
        """Return a number as an array without dimensions."""
        return self.xp.asarray(np.asarray(value, str(np.dtype(self.total_dtype))))

    def count(self, x: Array) -> int:
        """Return the number of elements that are held."""
        return int(x.data.size)

    def is_dense(self, x: Array) -> bool:
        """Return whether the elements lie in one piece."""
        return super().is_dense(x.data)

    def locate(self, x: Array) -> int:
        """Return the address of the first element."""
        return super().locate(x.data)

    def view(self, x: Array) -> Any:
        """Return the elements that are held."""
        return x.data

    def clip(self, x: Array, lower: float, upper: float, inplace: bool) -> Array:
        """Return an array within bounds that its dtype holds exactly."""
        return self.xp.clip(x, lower, upper)
