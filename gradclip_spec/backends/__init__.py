"""Choose the backend for arrays, and refuse arrays that no backend takes.

`base.Backend` uses the array API alone; `numpy`, `torch`, `jax`, `dask` and `cupy` hold one subclass for each library
that needs more. `torch_blocks` holds the backends of torch tensors on several devices or processes, and `torch_fused`
that of tensors on a GPU.
"""

import operator
import sys
from collections.abc import Sequence
from typing import Any

import array_api_compat

from gradclip_spec._formats import FORMATS
from gradclip_spec._inputs import Tree
from gradclip_spec.backends.base import Backend
from gradclip_spec.backends.numpy import NumPy, Sparse

__all__ = ["choose_backend"]


def choose_backend(tree: Tree, inplace: bool = False) -> Any:
    """Return the backend of the included arrays of a tree. It is NumPy's if there is no array at all.

    Raises
    ------
    TypeError
        If a leaf is not an array of real floats, or is masked, sparse, a parameter, or a DTensor that cannot be
        clipped. If the arrays come from several libraries. If `inplace` is true and an array cannot be written into.
    """
    backend = _make_backend(tree)
    if not FORMATS.keys() >= set(backend.dtypes.values()):
        index = next(i for i, x in enumerate(tree.included) if backend.dtypes[x.dtype] not in FORMATS)
        got = f"{backend.dtypes[tree.included[index].dtype]} ({tree.name(tree.indices[index])}); convert it first"
        message = f"gradients must be of dtype {', '.join(FORMATS)}, got {got}, or exclude it with `need_clip`"
        raise TypeError(message)
    problem = backend.find_problem(tree.included, inplace)
    if problem:
        message = f"{problem[1].format(tree.name(tree.indices[problem[0]]))}, or exclude it with `need_clip`"
        raise TypeError(message)
    return backend


def _make_backend(tree: Tree) -> Any:
    if tree.only_numpy:
        import array_api_compat.numpy as xp

        return NumPy(xp, tree.included)
    existing = [leaf for leaf in tree.leaves if leaf is not None]
    if len(tree.included) < len(existing):
        # In JAX, the derivative with respect to an integer is a NumPy array of the dtype float0.
        existing = [x for x in existing if getattr(getattr(x, "dtype", None), "names", None) != ("float0",)] or existing
    representatives = list(dict(zip(map(type, existing), existing, strict=True)).values())
    for x in representatives:
        if not array_api_compat.is_array_api_obj(x):
            name = tree.name(next(i for i, leaf in enumerate(tree.leaves) if leaf is x))
            wanted = "gradients must be arrays that array-api-compat knows, or None"
            message = f"{wanted}; {name} is a {_name_type(x)}; convert it to an array, or register it with optree"
            raise TypeError(message)
    namespaces = {array_api_compat.array_namespace(x) for x in representatives}
    if len(namespaces) > 1:
        places = sorted(next(i for i, leaf in enumerate(tree.leaves) if leaf is x) for x in representatives)
        kinds = " and ".join(f"a {_name_type(tree.leaves[i])} ({tree.name(i)})" for i in places)
        message = f"gradients must all be of one array library, got {kinds}; convert them to one first"
        raise TypeError(message)
    (xp,) = namespaces
    if array_api_compat.is_numpy_namespace(xp):
        return NumPy(xp, tree.included)
    device = array_api_compat.device(existing[0])
    if array_api_compat.is_torch_namespace(xp):
        return _choose_torch(xp, tree.included, device)
    if array_api_compat.is_dask_namespace(xp):
        from gradclip_spec.backends.dask import Dask

        return Dask(xp, tree.included, choose_backend)
    kind: type[Backend] = Backend
    if array_api_compat.is_jax_namespace(xp):
        from gradclip_spec.backends.jax import JAX

        kind = JAX
    elif array_api_compat.is_pydata_sparse_namespace(xp):
        kind = Sparse
    elif array_api_compat.is_cupy_namespace(xp):
        from gradclip_spec.backends.cupy import CuPy

        kind = CuPy
    return kind(xp, tree.included, device)


def _choose_torch(xp: Any, tensors: Sequence[Any], device: Any) -> Any:
    """Return the backend of torch tensors. If there are none, the norm is on `device`."""
    import torch

    from gradclip_spec.backends.torch import InMemoryTorch, Torch
    from gradclip_spec.backends.torch_private import is_watched

    if not torch.compiler.is_compiling() and set(map(type, tensors)) == {torch.Tensor} and not is_watched():
        facts = set(map(operator.attrgetter("is_cpu", "layout", "requires_grad", "is_nested"), tensors))
        if facts == {(True, torch.strided, False, False)}:
            return InMemoryTorch(xp, tensors)
        if facts == {(False, torch.strided, False, False)}:
            from gradclip_spec.backends.torch_fused import FusedTorch, can_fuse

            if can_fuse(tensors):
                return FusedTorch(xp, tensors)
    if "torch.distributed.tensor" in sys.modules or len({x.device for x in tensors}) > 1:
        from gradclip_spec.backends import torch_blocks

        if torch_blocks.has_dtensors(tensors):
            shards = list(map(torch_blocks.take_shard, tensors))
            return torch_blocks.Shards(xp, tensors, _choose_torch(xp, shards, device))
        if len({x.device for x in tensors}) > 1:
            return torch_blocks.Devices(xp, tensors, Torch(xp, tensors))
    return Torch(xp, tensors, device)


def _name_type(x: Any) -> str:
    return f"{type(x).__module__}.{type(x).__qualname__}"
