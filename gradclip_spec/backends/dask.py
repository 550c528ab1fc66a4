"""Define the backend of Dask arrays, which applies the reference's NumPy backend to each chunk.

Each chunk is read where it lies. One task combines the few numbers of all chunks into a norm, and each chunk is scaled
by a task that receives the norm. If each step were an operation of Dask, each would add a layer to every later graph.
For a thousand arrays, building the graph would take longer than the clip itself.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import array_api_compat.numpy
import numpy as np

from gradclip_spec._arithmetic import name_dtype
from gradclip_spec._inputs import Tree
from gradclip_spec._norms import Norm, PowerSum, join, take_root
from gradclip_spec.backends.base import NO_WRITING, Backend

__all__ = ["Dask"]

Array = Any
#: The function that chooses the backend of a chunk.
Choice = Callable[[Tree], Any]


class Dask(Backend):
    """The backend of Dask arrays, which computes nothing early. A norm is an array of three numbers."""

    raises_errors_of_users = True
    eager = False

    def __init__(self, xp: Any, arrays: Sequence[Array], choose: Choice) -> None:
        super().__init__(xp, arrays)
        self.choose = choose

    def find_problem(self, arrays: Sequence[Array], inplace: bool) -> tuple[int, str] | None:
        """Return an array whose chunks are refused, and why. Refuse to write into any array."""
        for index, x in enumerate(arrays):
            if isinstance(x._meta, np.ma.MaskedArray):
                return index, "{} is a masked array; fill the masked elements (`filled`) first"
        return (0, NO_WRITING.format("{}", "Dask's arrays cannot be written into")) if inplace and arrays else None

    def group(self, arrays: Sequence[Array]) -> list[list[int]]:
        """Return a separate group for each array, so that no array waits for another."""
        return [[index] for index in range(len(arrays))]

    def measure_norm(self, arrays: Sequence[Array], norm_type: float) -> Array:
        """Return the numbers of the norm of all arrays."""
        if not arrays:
            return self.xp.zeros(3)
        return _run_in_task(functools.partial(_join, norm_type), self._summarize_chunks(arrays, norm_type), (3,))

    def measure_norms(self, arrays: Sequence[Array], norm_type: float) -> list[Array]:
        """Return the numbers of the norm of each array."""
        return [self.measure_norm([array], norm_type) for array in arrays]

    def round_norm(self, norm: Array) -> Array:
        """Return a norm as one rounded number."""
        return _run_in_task(functools.partial(_round, name_dtype(self.total_dtype)), norm, (), self.total_dtype)

    def compute_coefficient(self, norm: Any, clip_norm: float, eps: float) -> Any:
        """Return the numbers from which each chunk computes the coefficient."""
        return norm, clip_norm, eps

    def scale(self, arrays: Sequence[Array], coefficient: Any, inplace: bool) -> list[Array]:
        """Return each array multiplied by one coefficient."""
        return [self._scale(array, *coefficient) for array in arrays]

    def scale_each(self, arrays: Sequence[Array], coefficients: Any, inplace: bool) -> list[Array]:
        """Return each array multiplied by its own coefficient."""
        norms, clip_norm, eps = coefficients
        return [self._scale(array, norm, clip_norm, eps) for array, norm in zip(arrays, norms, strict=True)]

    def clip(self, x: Array, lower: float, upper: float, inplace: bool) -> Array:
        """Return an array within bounds, by Dask's own function, which works for unknown shapes."""
        # In `clip`, NumPy converts bfloat16 to float32.
        return x.clip(lower, upper).astype(x.dtype)

    def _summarize_chunks(self, arrays: Sequence[Array], norm_type: float) -> Array:
        """Return the four numbers of each chunk, one row for each chunk."""
        import dask.array
        from dask.highlevelgraph import HighLevelGraph

        name = f"gradclip-norms-{dask.base.tokenize(norm_type, [array.name for array in arrays])}"
        chunks = dask.core.flatten([array.__dask_keys__() for array in arrays])
        # Wrap numbers, because a bare number in a task may be the key of another task.
        row = functools.partial(_summarize, self.choose, norm_type)
        # Use one layer for all arrays, because each scaled array holds a list of all earlier layers.
        layer: dict[Any, Any] = {(f"{name}-row", index): (row, chunk) for index, chunk in enumerate(chunks)}
        shape = ((len(layer),), (4,))
        layer[name, 0, 0] = (np.stack, list(layer))
        graph = HighLevelGraph.from_collections(name, layer, dependencies=arrays)
        return dask.array.Array(graph, name, shape, meta=np.empty((0, 0)))

    def _scale(self, array: Array, norm: Array, clip_norm: float, eps: float) -> Array:
        import dask.array

        axes = tuple(range(array.ndim))
        # The blocks are in the chunks' order, and each gets all numbers of the norm.
        pairs = (array, axes, norm, (array.ndim,))
        scale = functools.partial(_scale_chunk, self.choose, clip_norm, eps)
        return dask.array.blockwise(scale, axes, *pairs, concatenate=True, dtype=array.dtype, meta=array._meta)


def _run_in_task(function: Callable[[Any], Any], x: Array, shape: tuple[int, ...], dtype: Any = np.float64) -> Array:
    """Apply a NumPy function to an array with one chunk, in one task."""
    import dask.array
    from dask.highlevelgraph import HighLevelGraph

    name = f"gradclip-{dask.base.tokenize(function, x.name)}"
    (source,) = dask.core.flatten(x.__dask_keys__())
    layer = {(name, *(0 for _ in shape)): (function, source)}
    graph = HighLevelGraph.from_collections(name, layer, dependencies=[x])
    return dask.array.Array(graph, name, tuple((size,) for size in shape), meta=np.empty((0,) * len(shape), dtype))


def _summarize(choose: Choice, norm_type: float, chunk: Array) -> Any:
    """Return the four numbers of a chunk."""
    backend = choose(Tree(chunk, None))
    with backend.context():
        powers: PowerSum = backend.summarize([chunk], norm_type)
        return np.asarray([float(number) for number in powers])


@np.errstate(all="ignore")
def _join(norm_type: float, rows: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return the numbers of the norm of all chunks."""
    work = _make_number_backend()
    return np.stack(take_root(work, join(work, rows, norm_type), norm_type))


@np.errstate(all="ignore")
def _round(dtype: str, norm: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a norm as one rounded number."""
    return np.asarray(_make_number_backend().round_norm(Norm(*norm)), dtype)


def _scale_chunk(choose: Choice, clip_norm: float, eps: float, chunk: Array, norm: np.ndarray[Any, Any]) -> Array:
    """Return a chunk multiplied by the coefficient that a norm gives."""
    if 0 in chunk.shape:
        return chunk
    backend = choose(Tree(chunk, None))
    with backend.context():
        coefficient = backend.compute_coefficient(backend.adopt(Norm(*norm)), clip_norm, eps)
        return backend.scale([chunk], coefficient, False)[0]


@functools.cache
def _make_number_backend() -> Backend:
    """Return the NumPy backend that computes with the few numbers of a norm."""
    work = Backend(array_api_compat.numpy, [])
    work.total_dtype = np.float64
    return work
