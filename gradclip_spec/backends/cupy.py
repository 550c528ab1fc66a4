"""Define the backend of CuPy arrays, which never waits for the device."""

import functools
from collections.abc import Sequence
from typing import Any

import cupy

from gradclip_spec._formats import FORMATS
from gradclip_spec.backends.fused import Fused
from gradclip_spec.kernels.cuda_loops import CudaLoops

Array = Any
_load_loops = functools.cache(CudaLoops)


class CuPy(Fused):
    """The backend of CuPy arrays.

    CuPy's own functions treat subnormal numbers of float32 as zeros. So they compute in float64 only, and kernels
    convert from it and to it.
    """

    keeps_at_one = FORMATS
    slices_are_views = True
    eager = False

    def __init__(self, xp: Any, arrays: Sequence[Array], device: Any = None) -> None:
        super().__init__(xp, arrays, device)
        self.loops: CudaLoops = _load_loops()

    def supports_float64(self) -> bool:
        """Return True, because CUDA has float64 on every device."""
        return True

    def are_dense(self, arrays: Sequence[Array]) -> bool:
        """Return whether each array lies in one piece, row by row or column by column."""
        return all(x.flags.c_contiguous or x.flags.f_contiguous for x in arrays)

    def copy_densely(self, x: Array) -> Array:
        return cupy.ascontiguousarray(x)

    def make_like(self, x: Array) -> Array:
        return cupy.empty_like(x)

    def measure_norm(self, arrays: Sequence[Array], norm_type: float) -> Any:
        if self.is_simple(norm_type) or not arrays:
            return super().measure_norm(arrays, norm_type)
        wide = self._widen(arrays)
        return super(CuPy, CuPy(self.xp, wide)).measure_norm(wide, norm_type)

    def measure_norms(self, arrays: Sequence[Array], norm_type: float) -> Any:
        if self.is_simple(norm_type) or not arrays:
            return super().measure_norms(arrays, norm_type)
        wide = self._widen(arrays)
        return super(CuPy, CuPy(self.xp, wide)).measure_norms(wide, norm_type)

    def round_total(self, number: Array) -> Array:
        return number if self.any_float64 else self.loops.narrow(number)

    def _widen(self, arrays: Sequence[Array]) -> list[Array]:
        return [x if self.dtypes[x.dtype] == "float64" else self.loops.widen(x) for x in arrays]
