"""Which backend serves which arrays, and what is refused by all of them.

`base.Backend` is the array API alone; `numpy`, `torch`, `jax`, `dask` and `cupy` hold one subclass for each library
that needs more, and `torch_blocks` those of torch's tensors that lie on several devices or processes.
"""

import sys
from collections.abc import Sequence
from typing import Any

import array_api_compat

from gradclip_spec._arithmetic import FORMATS
from gradclip_spec._inputs import Tree, pick_each_type
from gradclip_spec.backends.base import Backend
from gradclip_spec.backends.numpy import NumPy, Sparse

__all__ = ["choose_backend"]


def choose_backend(tree: Tree, inplace: bool = False) -> Backend:
    """Return the backend of the included arrays of a tree; it is NumPy's if there is no array at all.

    Raises
    ------
    TypeError
        If they are not arrays, are of several libraries, hold something else than real floats, are masked, sparse,
        parameters, or DTensors that cannot be clipped; or if they cannot be written into and `inplace` is asked.
    """
    backend = _make_backend(tree)
    if not FORMATS.keys() >= set(backend.dtypes.values()):
        index = next(i for i, x in enumerate(tree.included) if backend.dtypes[x.dtype] not in FORMATS)
        message = (
            f"gradients must be of dtype {', '.join(FORMATS)}, got {backend.dtypes[tree.included[index].dtype]} "
            f"({tree.name(tree.indices[index])}); convert it first, or exclude it with `need_clip`"
        )
        raise TypeError(message)
    refusal = backend.find_refusal(tree.included)
    if refusal:
        message = (
            f"gradients must be plain dense arrays, {tree.name(tree.indices[refusal[0]])} is {refusal[1]} first, or "
            f"exclude it with `need_clip`"
        )
        raise TypeError(message)
    refusal = backend.find_read_only(tree.included) if inplace else None
    if refusal:
        message = (
            f"`inplace=True` needs arrays that can be written into; {tree.name(tree.indices[refusal[0]])} (a "
            f"{_name_type(tree.included[refusal[0]])}) cannot, because {refusal[1]}; use `inplace=False`"
        )
        raise TypeError(message)
    return backend


def _make_backend(tree: Tree) -> Backend:
    existing = [leaf for leaf in tree.leaves if leaf is not None]
    if len(tree.included) < len(existing):
        # The derivative by an integer, as JAX has it, is an array of NumPy that holds nothing.
        existing = [x for x in existing if getattr(getattr(x, "dtype", None), "names", None) != ("float0",)] or existing
    representatives = pick_each_type(existing)
    for x in representatives:
        if not array_api_compat.is_array_api_obj(x):
            message = (
                f"gradients must be arrays of a library that array-api-compat knows, or None; "
                f"{tree.name(next(i for i, leaf in enumerate(tree.leaves) if leaf is x))} is a {_name_type(x)}; make a "
                f"number an array, take a container apart or register it with optree"
            )
            raise TypeError(message)
    namespaces = {array_api_compat.array_namespace(x) for x in representatives}
    if len(namespaces) > 1:
        places = (next(i for i, leaf in enumerate(tree.leaves) if leaf is x) for x in representatives)
        kinds = " and ".join(f"a {_name_type(tree.leaves[i])} ({tree.name(i)})" for i in sorted(places))
        message = f"gradients must all be of one array library, got {kinds}; convert them to one first"
        raise TypeError(message)
    if not namespaces:
        import array_api_compat.numpy as xp
    else:
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


def _choose_torch(xp: Any, tensors: Sequence[Any], device: Any) -> Backend:
    """Return the backend of torch tensors; `device` is where a norm over none of them is."""
    from gradclip_spec.backends import torch

    if torch.may_be_read(tensors):
        return torch.InMemoryTorch(xp, tensors)
    if "torch.distributed.tensor" in sys.modules or len({x.device for x in tensors}) > 1:
        from gradclip_spec.backends import torch_blocks

        if torch_blocks.are_dtensors(tensors):
            shards = [x.to_local() for x in tensors]
            return torch_blocks.Shards(xp, tensors, _choose_torch(xp, shards, device))
        if len({x.device for x in tensors}) > 1:
            return torch_blocks.Devices(xp, tensors, torch.Torch(xp, tensors))
    return torch.Torch(xp, tensors, device)


def _name_type(x: Any) -> str:
    return f"{type(x).__module__}.{type(x).__qualname__}"
