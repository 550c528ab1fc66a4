"""Dask arrays, by the reference's own arithmetic on NumPy's numbers.

Each chunk is looked at where it lies. A norm, and a coefficient, is made of the few numbers of all chunks in one task.
As operations of Dask, each step would be a layer of every graph that follows, and the graph of a thousand arrays would
take longer to build than the arrays to clip.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradclip_spec._coefficient import MOST_FACTORS, Coefficient, coefficient_of
from gradclip_spec._float32_sums import ERROR_OF_NORM
from gradclip_spec._library import library_of
from gradclip_spec._norm import Norm, powers_of_blocks
from gradclip_spec._powers import joined, rooted
from gradclip_spec._scalars import NUMPY_SCALARS, dtype_name
from gradclip_spec._scaling import scaled

__all__ = ["clip_each_by_norm", "clip_together", "norm_and_total"]

Array = Any


def norm_and_total(arrays: Sequence[Array], norm_type: float, dtype: Any) -> tuple[Array, Array]:
    """The norm over all arrays as an array of its numbers, and its value in a dtype."""
    norm = _norm_numbers(arrays, norm_type)
    return norm, _in_one_task(functools.partial(_value, dtype_name(dtype)), norm, (), dtype)


def clip_together(arrays: Sequence[Array], norm: Array, clip_norm: float, eps: float) -> list[Array]:
    """All arrays multiplied by the coefficient of one norm, given by its numbers."""
    coefficient = _in_one_task(functools.partial(_coefficient_numbers, clip_norm, eps), norm, (MOST_FACTORS + 1,))
    return [_scaled(array, coefficient) for array in arrays]


def clip_each_by_norm(arrays: Sequence[Array], clip_norm: float, norm_type: float, eps: float) -> list[Array]:
    """Each array multiplied by the coefficient of its own norm, so that no array waits for another."""
    return [clip_together([array], _norm_numbers([array], norm_type), clip_norm, eps)[0] for array in arrays]


def _norm_numbers(arrays: Sequence[Array], norm_type: float) -> Array:
    rows = _rows(arrays, norm_type)
    return _in_one_task(functools.partial(_joined, norm_type), rows, (3,))


def _rows(arrays: Sequence[Array], norm_type: float) -> Array:
    """The four numbers of each chunk of Dask arrays, one row a chunk."""
    import dask.array
    from dask.highlevelgraph import HighLevelGraph

    name = f"gradclip-norms-{dask.base.tokenize(norm_type, [array.name for array in arrays])}"
    chunks = dask.core.flatten([array.__dask_keys__() for array in arrays])
    # A number in a task may be the key of another.
    row = functools.partial(_row, norm_type)
    # One layer for all, because each array that is scaled by what comes of it has a list of all layers before it.
    layer: dict[Any, Any] = {(f"{name}-row", index): (row, chunk) for index, chunk in enumerate(chunks)}
    shape = ((len(layer),), (4,))
    layer[name, 0, 0] = (np.stack, list(layer))
    graph = HighLevelGraph.from_collections(name, layer, dependencies=arrays)
    return dask.array.Array(graph, name, shape, meta=np.empty((0, 0)))


def _row(norm_type: float, chunk: Array) -> Any:
    return np.asarray([float(number) for number in powers_of_blocks(norm_type, [chunk])])


def _scaled(array: Array, coefficient: Array) -> Array:
    import dask.array

    axes = tuple(range(array.ndim))
    # In the chunks' order, and each with all numbers of the coefficient.
    pairs = (array, axes, coefficient, (array.ndim,))
    return dask.array.blockwise(_scaled_chunk, axes, *pairs, concatenate=True, dtype=array.dtype, meta=array._meta)


def _in_one_task(function: Callable[[Any], Any], x: Array, shape: tuple[int, ...], dtype: Any = np.float64) -> Array:
    """What a function of NumPy arrays makes of an array in one chunk."""
    import dask.array
    from dask.highlevelgraph import HighLevelGraph

    name = f"gradclip-{dask.base.tokenize(function, x.name)}"
    (source,) = dask.core.flatten(x.__dask_keys__())
    layer = {(name, *(0 for _ in shape)): (function, source)}
    graph = HighLevelGraph.from_collections(name, layer, dependencies=[x])
    return dask.array.Array(graph, name, tuple((size,) for size in shape), meta=np.empty((0,) * len(shape), dtype))


@np.errstate(all="ignore")
def _joined(norm_type: float, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.stack(rooted(NUMPY_SCALARS, joined(NUMPY_SCALARS, rows, norm_type), norm_type))


@np.errstate(all="ignore")
def _value(dtype: str, norm: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray(Norm(*norm).value(NUMPY_SCALARS), dtype)


@np.errstate(all="ignore")
def _coefficient_numbers(clip_norm: float, eps: float, norm: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    coefficient = coefficient_of(NUMPY_SCALARS, Norm(*norm), clip_norm, eps)
    ones = [1.0] * (MOST_FACTORS - len(coefficient.factors))
    return np.asarray([*coefficient.factors, *ones, coefficient.unchanged])


def _scaled_chunk(chunk: Array, numbers: np.ndarray[Any, Any]) -> Array:
    if 0 in chunk.shape:
        return chunk
    library = library_of([chunk], [chunk])
    asarray = library.scalars.xp.asarray
    *factors, unchanged = numbers
    coefficient = Coefficient([asarray(number) for number in factors], asarray(unchanged != 0), ERROR_OF_NORM)
    with library.primitives.context():
        return scaled(library, [chunk], coefficient, inplace=False)[0]
