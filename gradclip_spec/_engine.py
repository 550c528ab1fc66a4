"""What the public functions share: gradients taken apart, checked, clipped, and put together again."""

import contextlib
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradclip_spec import _dask, _trees
from gradclip_spec._coefficient import coefficient_of
from gradclip_spec._library import Library, library_of
from gradclip_spec._norm import norm_of_all, norms_of_each
from gradclip_spec._scalars import dtype_name, rounded
from gradclip_spec._scaling import in_groups, scaled, scaled_each

__all__ = ["Gradients", "clip_each_by_norm", "clip_each_by_value", "clip_together", "total_norm"]

Array = Any


@dataclass(frozen=True)
class Gradients:
    """A tree of gradients, of which some are included in a clip."""

    tree: _trees.Tree
    #: The included arrays.
    arrays: list[Array]
    #: Which leaves of the tree they are.
    indices: list[int]
    #: None if there is no array at all.
    array_library: Library | None
    #: Whether results are written into `arrays`.
    inplace: bool

    @classmethod
    def of(cls, grads: Any, need_clip: Any, inplace: bool = False) -> "Gradients":
        """Take the gradients apart and check what can be wrong with them, but for their values; nothing is changed."""
        tree = _trees.flatten(grads)
        indices = _trees.included_indices(tree, need_clip)
        existing = [leaf for leaf in tree.leaves if leaf is not None]
        arrays = existing if len(indices) == len(existing) else [tree.leaves[index] for index in indices]
        library = library_of(existing, arrays) if existing else None
        gradients = cls(tree, arrays, indices, library, inplace)
        if inplace:
            gradients._check_writeable()
        return gradients

    def rebuilt(self, arrays: list[Array]) -> Any:
        """The tree with the included arrays replaced; everything else is the very same object."""
        if len(arrays) == len(self.tree.leaves):
            return self.tree.rebuild(arrays)
        results = list(self.tree.leaves)
        for index, array in zip(self.indices, arrays, strict=True):
            results[index] = array
        return self.tree.rebuild(results)

    def context(self) -> contextlib.AbstractContextManager[Any]:
        """The context that everything is computed in: without warnings of overflow, and what else the library needs."""
        return contextlib.nullcontext() if self.array_library is None else self.array_library.primitives.context()

    def _check_writeable(self) -> None:
        if self.array_library is None:
            return
        flags = self.array_library.primitives.writeable(self.arrays)
        if not all(flags):
            index = self.indices[flags.index(False)]
            kind = type(self.tree.leaves[index])
            message = (
                f"`inplace=True` needs arrays that can be written into; the one at {self.tree.paths()[index]} "
                f"(a {kind.__module__}.{kind.__qualname__}) cannot, because arrays of its library cannot, or it is "
                f"read-only, or (of torch) its elements share memory, or it is a leaf or a view beside what requires "
                f"grad (of a parameter, pass its `grad`), or an inference tensor, or has the negative bit, or is "
                f"from outside of a transformation; use `inplace=False`"
            )
            raise TypeError(message)


def total_norm(gradients: Gradients, norm_type: float) -> Array:
    """The norm over all included arrays, as a 0-d array of their library."""
    with gradients.context():
        return _norm_and_total(gradients, norm_type)[1]


def clip_together(
    gradients: Gradients, clip_norm: float, norm_type: float, eps: float, error_if_nonfinite: bool
) -> tuple[Any, Array]:
    """All included arrays multiplied by the one coefficient of their common norm, and that norm."""
    library, arrays = gradients.array_library, gradients.arrays
    with gradients.context():
        norm, total = _norm_and_total(gradients, norm_type)
        if error_if_nonfinite:
            _refuse_nonfinite(total, library is not None and library.primitives.chunked)
        if library is None or not arrays:
            return gradients.rebuilt(arrays), total
        if library.primitives.chunked:
            return gradients.rebuilt(_dask.clip_together(arrays, norm, clip_norm, eps)), total
        coefficient = coefficient_of(library.scalars, norm, clip_norm, eps)
        return gradients.rebuilt(scaled(library, arrays, coefficient, gradients.inplace)), total


def _norm_and_total(gradients: Gradients, norm_type: float) -> tuple[Any, Array]:
    """The norm that a coefficient is made of, and the total norm, which is the same rounded to the total dtype.

    The first is a `Norm`; for Dask an array of its numbers, and None over nothing.
    """
    library = gradients.array_library
    if library is None:
        return None, np.zeros((), dtype=np.float32)
    if not gradients.arrays:
        return None, library.xp.zeros((), dtype=library.total_dtype, device=library.device)
    if library.primitives.chunked:
        return _dask.norm_and_total(gradients.arrays, norm_type, library.total_dtype)
    norm = norm_of_all(library, gradients.arrays, norm_type)
    value = norm.value(library.scalars)
    if not library.eager:
        return norm, library.xp.astype(value, library.total_dtype)
    # Rounded by NumPy, so that all libraries round alike; it fits the total dtype then.
    number = float(np.asarray(value, dtype=dtype_name(library.total_dtype)))
    return norm, library.xp.asarray(number, dtype=library.total_dtype, device=library.device)


def _refuse_nonfinite(total: Array, chunked: bool) -> None:
    """Raise if a total norm is not finite.

    Raises
    ------
    FloatingPointError
        If it is NaN or infinite.
    TypeError
        If its value cannot be looked at, because it is being traced.
    """
    try:
        # Of a tensor that requires grad, torch warns if it is made a number.
        value = float(total.detach() if hasattr(total, "detach") else total)
    except Exception as error:
        if chunked:
            # Computed here, by the user's own functions and on a cluster: what is raised is theirs.
            raise
        message = (
            "`error_if_nonfinite=True` needs the value of the norm, which is not known here (it is traced, or its "
            "device holds no values); leave it False and check the norm that is returned"
        )
        raise TypeError(message) from error
    if not math.isfinite(value):
        message = (
            f"the total norm of the gradients is {value}, which `error_if_nonfinite=True` refuses; look for the "
            f"gradient that holds it or is so large, or leave `error_if_nonfinite` False (nothing has been changed)"
        )
        raise FloatingPointError(message)


def clip_each_by_norm(gradients: Gradients, clip_norm: float, norm_type: float, eps: float) -> Any:
    """Each included array multiplied by the coefficient of its own norm."""
    library, arrays = gradients.array_library, gradients.arrays
    if library is None or not arrays:
        return gradients.rebuilt(arrays)
    with gradients.context():
        if library.primitives.chunked:
            return gradients.rebuilt(_dask.clip_each_by_norm(arrays, clip_norm, norm_type, eps))

        def clipped(alike: list[Array]) -> list[Array]:
            norms = norms_of_each(library, alike, norm_type)
            coefficients = coefficient_of(library.scalars, norms, clip_norm, eps)
            return scaled_each(library, alike, coefficients, gradients.inplace)

        return gradients.rebuilt(in_groups(clipped, arrays, range(len(arrays)), library.primitives.axes))


def clip_each_by_value(gradients: Gradients, lower: float, upper: float) -> Any:
    """Each included array clipped by value."""
    library = gradients.array_library
    if library is None:
        return gradients.rebuilt(gradients.arrays)
    # Since rounding is monotonic, to clip by rounded bounds is to clip exactly and round then.
    bounds = {dtype: (rounded(lower, name), rounded(upper, name)) for dtype, name in library.dtypes.items()}
    with gradients.context():
        return gradients.rebuilt(
            [_clip(library, array, *bounds[array.dtype], gradients.inplace) for array in gradients.arrays]
        )


def _clip(library: Library, x: Array, lower: float, upper: float, inplace: bool) -> Array:
    if not math.prod(x.shape):
        return x
    if library.eager and not library.in_blocks and lower <= library.xp.min(x) and library.xp.max(x) <= upper:
        return x
    return library.primitives.clip(x, lower, upper, inplace)
