"""Call a function on torch on one rank of a mesh. This runs in the processes of `mesh_function.TorchFunction`.

:func:`load` imports the function once, and the processes part afterwards. Each makes the parameters that a trainer has
after the backward pass: a DTensor of what the ranks of the mesh share, a plain tensor of what no other rank has.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Sequence

import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.nn import Parameter

from ...contract import Array, Call, Reply, framework_call, name_type, read_text
from ...mesh import Mesh, cut_call
from ...mesh_function import TorchFunction, show_placements
from ...processes import Answer, Ask, Join
from ...registry import find_function
from .distributed import import_engines, join_group, set_variables, take_local
from .dtensors import make_dtensors
from .parameters import read_array, read_arrays
from .watched_collectives import WatchedCollectives


def load(target: str, operation: str, mesh: dict[str, int]) -> Join:
    """Import a function, and return the function that makes a process a rank of the mesh."""
    # The processes are forks of this one. Threads of torch would be missing in them.
    torch.set_num_threads(1)
    import_engines()
    function = TorchFunction(find_function(target), operation, mesh)

    def join(rank: int, world: int, folder: str, ask: Ask) -> Answer:
        set_variables(rank, world)
        join_group(rank, world, folder)
        return _Rank(function, Mesh(mesh), rank, ask).answer

    return join


class _Rank:
    """One rank of the mesh."""

    def __init__(self, function: TorchFunction, mesh: Mesh, rank: int, ask: Ask) -> None:
        self._function, self._mesh, self._rank = function, mesh, rank
        self._watched = WatchedCollectives(mesh, rank, ask)
        self._device_mesh = init_device_mesh("cpu", tuple(mesh.axes.values()), mesh_dim_names=tuple(mesh.axes))

    def answer(self, call: Call) -> Reply:
        """Call the function with the parameters of this rank. The reply has the parts of this rank."""
        part = cut_call(call, self._rank)
        parameters = make_dtensors(call, self._rank, self._device_mesh)
        before = [parameter.grad for parameter in parameters]
        shown = [show_placements(gradient, self._mesh) for gradient in part.gradients]
        keywords = self._function.build_keywords(part, {"mesh": self._device_mesh, "placements": shown})
        with framework_call() as seen, self._watched:
            result = self._function.ask(list(parameters), keywords)
        return replace(_read_result(result, parameters, before), warnings=seen.warnings)


def _read_result(result: Any, parameters: Sequence[Parameter], before: Sequence[torch.Tensor | None]) -> Reply:
    """Return a reply with the results of a function. If they cannot be read, the reply says so."""
    try:
        clipped, norm = _split(result, parameters)
        # A wrong number of results is the judge's matter.
        rest = [_take_own(tensor) for tensor in clipped[len(before) :]]
        return Reply(
            gradients=read_arrays([_take_own(_share_again(*pair)) for pair in zip(clipped, before)] + rest),
            norm=None if norm is None else _read_norm(_take_own(norm)),
            inputs=read_arrays([_take_own(tensor) for tensor in before]),
        )
    except Exception as error:  # noqa: BLE001 - the value may be of any class, whose methods may raise anything
        text = f"returned a value of type {name_type(result)}, which cannot be read: {read_text(error)}"
        return Reply((), malformed=text)


def _read_norm(norm: Any) -> Array:
    # A float of Python has 53 bits, but a tensor that is made of it has torch's default dtype.
    is_number = isinstance(norm, (int, float))
    return read_array(torch.as_tensor(norm, dtype=torch.float64 if is_number else None))


def _split(result: Any, parameters: Sequence[Parameter]) -> tuple[Sequence[Any], Any]:
    """Return the clipped gradients and the norm from the result of a function. The norm is None if there is none."""
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[0], (list, tuple)):
        return result
    if isinstance(result, (list, tuple)):
        return result, None
    return [parameter.grad for parameter in parameters], result


def _share_again(result: Any, gradient: Any) -> Any:
    """Return the addend of this rank if a gradient is partial, and a function returns its sum on all ranks."""
    if not (isinstance(result, DTensor) and isinstance(gradient, DTensor)):
        return result
    axes = zip(gradient.placements, result.placements, gradient.device_mesh.get_coordinate())
    if any(one.is_partial() and other.is_replicate() and coordinate for one, other, coordinate in axes):
        return torch.zeros_like(result.to_local())
    return result


def _take_own(value: Any) -> Any:
    """Return what this rank has of a tensor. A user reads the norm by `float(norm)`, which reads the same."""
    local = take_local(value)
    # The result of a functional collective waits for the collective.
    return local.wait() if hasattr(local, "wait") else local
