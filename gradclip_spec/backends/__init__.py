"""Which backend serves which arrays, and what is refused by all of them.

`base.Backend` is the array API alone; `numpy`, `torch`, `jax`, `dask` and `cupy` hold one subclass for each library that
needs more, and `torch_blocks` those of torch's tensors that lie on several devices or processes.
"""

from collections.abc import Callable, Sequence
from typing import Any

import array_api_compat

from gradclip_spec._arithmetic import FORMATS, name_dtype
from gradclip_spec._inputs import Tree, pick_each_type
from gradclip_spec.backends.base import Backend
from gradclip_spec.backends.numpy import NumPy, Sparse

__all__ = ["choose_backend", "choose_for_tree"]

Array = Any


def choose_for_tree(tree: Tree, inplace: bool = False) -> Backend:
    """Return the backend of the included arrays of a tree; it is NumPy's if there is no array at all.

    Raises
    ------
    TypeError
        If they are not arrays, are of several libraries, hold something else than real floats, are masked, sparse,
        parameters, or DTensors that cannot be clipped; or if they cannot be written into and `inplace` is asked.
    """
    existing = [leaf for leaf in tree.leaves if leaf is not None]

    def name(x: Array) -> str:
        return tree.name(next(index for index, leaf in enumerate(tree.leaves) if leaf is x))

    backend = choose_backend(existing, tree.included, name)
    if inplace:
        for index, reason in backend.explain_read_only(tree.included).items():
            message = (
                f"`inplace=True` needs arrays that can be written into; {tree.name(tree.indices[index])} (a "
                f"{_name_type(tree.included[index])}) cannot, because {reason}; use `inplace=False`"
            )
            raise TypeError(message)
    return backend


def choose_backend(
    existing: Sequence[Array], included: Sequence[Array], name: Callable[[Array], str] = lambda x: "a gradient"
) -> Backend:
    """Return the backend that serves the included arrays, which are some of those that exist."""
    if len(included) < len(existing):
        # The derivative by an integer, as JAX has it, is an array of NumPy that holds nothing.
        existing = [x for x in existing if getattr(getattr(x, "dtype", None), "names", None) != ("float0",)] or existing
    xp = _find_namespace(existing, name)
    for x in pick_each_dtype(included):
        if name_dtype(x.dtype) not in FORMATS:
            message = (
                f"gradients must be of dtype {', '.join(FORMATS)}, got {name_dtype(x.dtype)} ({name(x)}); convert it "
                f"first, or exclude it with `need_clip`"
            )
            raise TypeError(message)
    backend = _make_backend(xp, included, existing)
    for x in included:
        refusal = backend.explain_refusal(x)
        if refusal:
            message = (
                f"gradients must be plain dense arrays, {name(x)} is {refusal} first, or exclude it with `need_clip`"
            )
            raise TypeError(message)
    return backend


def pick_each_dtype(arrays: Sequence[Array]) -> list[Array]:
    """Return the last array of each dtype."""
    return list({x.dtype: x for x in arrays}.values())


def _name_type(x: Any) -> str:
    return f"{type(x).__module__}.{type(x).__qualname__}"


def _find_namespace(arrays: Sequence[Array], name: Callable[[Array], str]) -> Any:
    """Return the namespace of the array library that all arrays are of, NumPy's where there are none."""
    representatives = pick_each_type(arrays)
    for x in representatives:
        if not array_api_compat.is_array_api_obj(x):
            message = (
                f"gradients must be arrays of a library that array-api-compat knows, or None; {name(x)} is a "
                f"{_name_type(x)}; make a number an array, take a container apart or register it with optree"
            )
            raise TypeError(message)
    if not representatives:
        import array_api_compat.numpy as xp

        return xp
    namespaces = {array_api_compat.array_namespace(x): x for x in representatives}
    if len(namespaces) > 1:
        kinds = " and ".join(sorted(f"a {_name_type(x)} ({name(x)})" for x in representatives))
        message = f"gradients must all be of one array library, got {kinds}; convert them to one first"
        raise TypeError(message)
    return next(iter(namespaces))


def _make_backend(xp: Any, arrays: Sequence[Array], existing: Sequence[Array]) -> Backend:
    if array_api_compat.is_numpy_namespace(xp):
        return NumPy(xp, arrays)
    backend: type[Backend] = Backend
    if array_api_compat.is_torch_namespace(xp):
        from gradclip_spec.backends import torch, torch_blocks

        if torch_blocks.are_dtensors(arrays):
            local = [x.to_local() for x in arrays]
            return torch_blocks.Shards(xp, arrays, torch.choose(xp, local, None))
        chosen = torch.choose(xp, arrays, existing[0].device if not arrays else None)
        if not chosen.eager and len({x.device for x in arrays}) > 1:
            return torch_blocks.Devices(xp, arrays, chosen)
        return chosen
    if array_api_compat.is_jax_namespace(xp):
        from gradclip_spec.backends.jax import JAX as backend
    elif array_api_compat.is_dask_namespace(xp):
        from gradclip_spec.backends.dask import Dask

        return Dask(xp, arrays, choose_backend)
    elif array_api_compat.is_pydata_sparse_namespace(xp):
        backend = Sparse
    elif array_api_compat.is_cupy_namespace(xp):
        from gradclip_spec.backends.cupy import CuPy as backend
    return backend(xp, arrays, array_api_compat.device(existing[0]))
