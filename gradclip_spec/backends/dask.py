"""Define the backend of Dask arrays, which applies the reference's NumPy backend to each chunk.

Each chunk is read where it lies. One task combines the few numbers of all chunks into a norm, and each chunk is scaled
by a task that receives the norm. If each step were an operation of Dask, each would add a layer to every later graph.
For a thousand arrays, building the graph would take longer than the clip itself.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import dask.array
import numpy as np
from dask.highlevelgraph import HighLevelGraph

from gradclip_spec._formats import name_dtype
from gradclip_spec._inputs import Tree
from gradclip_spec._norms import Norm, PowerSum
from gradclip_spec.backends.base import NO_WRITING, Backend, OneByOne, make_number_backend

Array = Any
#: The function that chooses the backend of a chunk.
Choice = Callable[[Tree], Any]


class Dask(OneByOne, Backend):
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

    def measure_norm(self, arrays: Sequence[Array], norm_type: float) -> Array:
        """Return the numbers of the norm of all arrays."""
        if not arrays:
            return self.xp.zeros(3)
        name = f"gradclip-norm-{dask.base.tokenize(norm_type, [array.name for array in arrays])}"
        chunks = dask.core.flatten([array.__dask_keys__() for array in arrays])
        # Wrap numbers, because a bare number in a task may be the key of another task.
        row = functools.partial(_summarize, self.choose, norm_type)
        # Use one layer for all arrays, because each scaled array holds a list of all earlier layers.
        layer: dict[Any, Any] = {(f"{name}-row", index): (row, chunk) for index, chunk in enumerate(chunks)}
        layer[name, 0] = (functools.partial(_join, norm_type), list(layer))
        return _make_array(name, layer, arrays, (3,), np.float64)

    def join(self, rows: Array, norm_type: float) -> Array:
        """Refuse contributions of other ranks, because the chunks of an array of Dask are all there are."""
        message = "`contributions` is for ranks with arrays of their own; all chunks of Dask's arrays count without it"
        raise TypeError(message)

    def round_norm(self, norm: Array) -> Array:
        name = f"gradclip-total-{dask.base.tokenize(self.total_dtype, norm.name)}"
        task = functools.partial(_round, name_dtype(self.total_dtype)), *dask.core.flatten(norm.__dask_keys__())
        return _make_array(name, {(name,): task}, [norm], (), self.total_dtype)

    def compute_coefficient(self, norm: Any, clip_norm: float, eps: float) -> Any:
        """Return the numbers from which each chunk computes the coefficient."""
        return norm, clip_norm, eps

    def divide_norms(self, norm: Array, other: Array, least: float) -> Array:
        name = f"gradclip-quotient-{dask.base.tokenize(norm.name, other.name, least)}"
        # Wrap the number, because a bare number in a task may be the key of another task.
        task = functools.partial(_divide, least=least), (norm.name, 0), (other.name, 0)
        return _make_array(name, {(name, 0): task}, [norm, other], (3,), np.float64)

    def scale(self, arrays: Sequence[Array], coefficient: Any, inplace: bool) -> list[Array]:
        norm, clip_norm, eps = coefficient
        scale = functools.partial(_scale_chunk, self.choose, clip_norm, eps)
        results = []
        for array in arrays:
            axes = tuple(range(array.ndim))
            # The blocks are in the chunks' order, and each gets all numbers of the norm.
            blocks = (array, axes, norm, (array.ndim,))
            kind = {"dtype": array.dtype, "meta": array._meta}
            results.append(dask.array.blockwise(scale, axes, *blocks, concatenate=True, **kind))
        return results

    def clip(self, x: Array, lower: float, upper: float, inplace: bool) -> Array:
        """Return an array within bounds, by Dask's own function, which works for unknown shapes."""
        # In `clip`, NumPy converts bfloat16 to float32.
        return x.clip(lower, upper).astype(x.dtype)


def _make_array(name: str, layer: Any, sources: Sequence[Array], shape: tuple[int, ...], dtype: Any) -> Array:
    """Return an array with one chunk, which the tasks of a layer compute from the chunks of other arrays."""
    graph = HighLevelGraph.from_collections(name, layer, dependencies=sources)
    return dask.array.Array(graph, name, tuple((size,) for size in shape), meta=np.empty((0,) * len(shape), dtype))


def _summarize(choose: Choice, norm_type: float, chunk: Array) -> Any:
    """Return the four numbers of a chunk."""
    backend = choose(Tree(chunk, None))
    with backend.context():
        powers: PowerSum = backend.summarize([chunk], norm_type)
        return np.asarray([float(number) for number in powers])


@np.errstate(all="ignore")
def _join(norm_type: float, rows: list[Any]) -> np.ndarray[Any, Any]:
    """Return the numbers of the norm of all chunks."""
    return np.stack(make_number_backend().join(np.stack(rows), norm_type))


@np.errstate(all="ignore")
def _divide(norm: np.ndarray[Any, Any], other: np.ndarray[Any, Any], least: float) -> np.ndarray[Any, Any]:
    """Return the numbers of a norm divided by another one."""
    return np.stack(make_number_backend().divide_norms(Norm(*norm), Norm(*other), least))


@np.errstate(all="ignore")
def _round(dtype: str, norm: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Return a norm as one rounded number."""
    return np.asarray(make_number_backend().round_norm(Norm(*norm)), dtype)


def _scale_chunk(choose: Choice, clip_norm: float, eps: float, chunk: Array, norm: np.ndarray[Any, Any]) -> Array:
    """Return a chunk multiplied by the coefficient that a norm gives."""
    if 0 in chunk.shape:
        return chunk
    backend = choose(Tree(chunk, None))
    with backend.context():
        coefficient = backend.compute_coefficient(backend.adopt(Norm(*norm)), clip_norm, eps)
        return backend.scale([chunk], coefficient, False)[0]
