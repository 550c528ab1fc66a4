"""Clip arrays on a GPU in a few passes over all of them. The passes are those of `kernels.fused`."""

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gradclip_spec.backends.base import Backend, Bounds, Coefficient
from gradclip_spec.kernels.fused import Coefficients, FusedLoops, Norms

Array = Any


class Fused(Backend):
    """The part of a backend that hands Euclidean norms, products and bounds to fused kernels.

    The kernels take elements narrower than float64, of arrays that each lie in one piece. Other arrays are copied.
    Other norms, and all of float64, are computed as in the base class.
    """

    loops: FusedLoops

    def are_dense(self, arrays: Sequence[Array]) -> bool:
        """Return whether each array lies in one piece."""
        raise NotImplementedError

    def copy_densely(self, x: Array) -> Array:
        """Return a copy that lies in one piece."""
        raise NotImplementedError

    def make_like(self, x: Array) -> Array:
        """Return a new array with the layout of one that lies in one piece."""
        raise NotImplementedError

    def record_writing(self, arrays: Sequence[Array]) -> None:
        """Tell the library that arrays were written into."""

    def measure_norm(self, arrays: Sequence[Array], norm_type: float) -> Any:
        if not self.is_simple(norm_type) or all(0 in x.shape for x in arrays):
            return super().measure_norm(arrays, norm_type)
        return self.loops.measure(self._make_dense(arrays), self._list_names(arrays), each=False)

    def measure_norms(self, arrays: Sequence[Array], norm_type: float) -> Any:
        if not self.is_simple(norm_type) or all(0 in x.shape for x in arrays):
            return super().measure_norms(arrays, norm_type)
        return self.loops.measure(self._make_dense(arrays), self._list_names(arrays), each=True)

    def round_norm(self, norm: Any) -> Array:
        return norm.totals if isinstance(norm, Norms) else super().round_norm(norm)

    def compute_coefficient(self, norm: Any, clip_norm: float, eps: float) -> Any:
        if isinstance(norm, Norms):
            return Coefficients(norm.high, clip_norm, eps, norm.upload)
        return super().compute_coefficient(norm, clip_norm, eps)

    def scale(self, arrays: Sequence[Array], coefficient: Any, inplace: bool) -> list[Array]:
        narrow = [x for x in arrays if self.dtypes[x.dtype] != "float64"] if self.any_float64 else arrays
        products = self._scale_narrow(narrow, coefficient, inplace, each=False)
        if not self.any_float64:
            return products
        wide = super().scale([x for x in arrays if self.dtypes[x.dtype] == "float64"], coefficient, inplace)
        return self._merge(arrays, products, wide)

    def scale_each(self, arrays: Sequence[Array], coefficients: Any, inplace: bool) -> list[Array]:
        if self.any_float64:
            return super().scale_each(arrays, coefficients, inplace)
        return self._scale_narrow(arrays, coefficients, inplace, each=True)

    def clip_all(self, arrays: Sequence[Array], bounds: Mapping[str, Bounds], inplace: bool) -> list[Array]:
        narrow = [x for x in arrays if self.dtypes[x.dtype] != "float64"]
        clipped = self._write(narrow, inplace, functools.partial(self.loops.clamp, bounds=bounds))
        wide = super().clip_all([x for x in arrays if self.dtypes[x.dtype] == "float64"], bounds, inplace)
        return self._merge(arrays, clipped, wide)

    def _scale_narrow(self, arrays: Sequence[Array], coefficient: Any, inplace: bool, each: bool) -> list[Array]:
        if isinstance(coefficient, Coefficient):
            coefficient = Coefficients(functools.reduce(operator.mul, coefficient.factors))
        if inplace and arrays:
            coefficient, groups = self._group_for_writing(arrays, coefficient, each)
            if len(groups) > 1:
                for places in groups:
                    # With one coefficient for each array, each group is one array.
                    norms = coefficient.norms[places[0] : places[0] + 1] if each else coefficient.norms
                    own = [arrays[place] for place in places]
                    self._scale_narrow(own, coefficient._replace(norms=norms), True, each)
                return list(arrays)
        return self._write(arrays, inplace, functools.partial(self.loops.scale, coefficients=coefficient, each=each))

    def _group_for_writing(
        self, arrays: Sequence[Array], coefficient: Coefficients, each: bool
    ) -> tuple[Coefficients, list[list[int]]]:
        """Return groups of indices of arrays to scale in place, one group after the other.

        Arrays of a tree may share memory, and each of them is scaled. Those of one group share none. The coefficient
        gets the addresses that were needed to find this out.
        """
        singles = [[place] for place in range(len(arrays))]
        if len(arrays) == 1:
            return coefficient, singles
        dense = list(range(len(arrays)))
        if not self.are_dense(arrays):
            dense = [place for place in dense if self.are_dense([arrays[place]])]
            if each or not dense:
                return coefficient, singles
        whole = arrays if len(dense) == len(arrays) else [arrays[place] for place in dense]
        upload = coefficient.upload
        if upload is None or not upload.holds(whole):
            upload = self.loops.upload(whole)
        if self.loops.may_overlap(upload, self._list_names(whole)):
            return coefficient, singles
        rest = [] if whole is arrays else [[place] for place in range(len(arrays)) if place not in set(dense)]
        return coefficient._replace(upload=upload), [dense, *rest]

    def _write(self, arrays: Sequence[Array], inplace: bool, run: Callable[..., None]) -> list[Array]:
        """Run a pass from arrays to new arrays, or to the arrays themselves if `inplace`. Return its results."""
        sources = self._make_dense(arrays)
        targets = sources if inplace else list(map(self.make_like, sources))
        if not all(0 in x.shape for x in arrays):
            run(sources, targets, self._list_names(arrays))
        if not inplace:
            return list(targets)
        for x, target in zip(arrays, targets, strict=True):
            if target is not x:
                x[...] = target
        self.record_writing(arrays)
        return list(arrays)

    def _make_dense(self, arrays: Sequence[Array]) -> Sequence[Array]:
        if self.are_dense(arrays):
            return arrays
        return [x if self.are_dense([x]) else self.copy_densely(x) for x in arrays]

    def _list_names(self, arrays: Sequence[Array]) -> list[str]:
        if len(self.dtypes) == 1:
            return list(self.dtypes.values()) * len(arrays)
        return [self.dtypes[x.dtype] for x in arrays]

    def _merge(self, arrays: Sequence[Array], narrow: list[Array], wide: list[Array]) -> list[Array]:
        """Return the results of narrow and of wide arrays in the order of the arrays."""
        results = {"narrow": iter(narrow), "wide": iter(wide)}
        return [next(results["wide" if self.dtypes[x.dtype] == "float64" else "narrow"]) for x in arrays]
