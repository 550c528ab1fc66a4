"""Adapt torch's clips on its distributed engines: DTensor, FSDP2 and DDP, over gloo in several processes.

The function that :func:`load` returns makes a process a member of a group. torch's own functions cut the gradients
where the engine has such functions, so that the parts are those of a user. Other adapters on torch join groups by the
functions of this module, too.
"""

from __future__ import annotations

import contextlib
import importlib
import os
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

import torch
from torch.nn import Parameter

from ...contract import Call, EntryPoint, Reply, Unsupported, framework_call
from ...mesh import Mesh, find_sharded_axis, get_mesh
from ...processes import Answer, Ask, Join, find_team
from .installed_torch import ERROR_IF_NONFINITE, HAS_MESH, NORM_DTYPES, SENT_DTYPES, VALUE_DTYPES
from .parameters import (
    NORM_TYPES,
    Clip,
    GivenGradients,
    Parameters,
    add_flags,
    make_tensor,
    read_array,
    read_arrays,
    select_more,
)

#: The engines, by the mode in the entry point's name.
ENGINES = ("DTensor", "FSDP2", "DDP") if HAS_MESH else ("DDP",)

#: The modules that the engines of torch import when they are first used. Older torch has fewer of them.
USED_BY_ENGINES = ("torch.distributed.tensor", "torch.distributed.fsdp", "torch._dynamo")

FEATURES = ("distributed", "in_place", "none_grads")
BY_NORM = (*FEATURES, "returns_norm", "norm_type", *ERROR_IF_NONFINITE)


def _keep_sent(dtypes: Sequence[str]) -> tuple[str, ...]:
    return tuple(dtype for dtype in dtypes if dtype in SENT_DTYPES)


def _list_entry_points() -> list[EntryPoint]:
    found = []
    for engine in ENGINES:
        by_norm = f"torch.nn.utils.clip_grad_norm_[{engine}]"
        by_value = f"torch.nn.utils.clip_grad_value_[{engine}]"
        found += [
            EntryPoint(by_norm, "clip_by_global_norm", _keep_sent(NORM_DTYPES), BY_NORM, NORM_TYPES),
            EntryPoint(by_value, "clip_by_value", _keep_sent(VALUE_DTYPES), FEATURES),
        ]
    return found


ENTRY_POINTS = {entry_point.name: entry_point for entry_point in _list_entry_points()}


def answer_in_processes(call: Call) -> Reply:
    """Return the answer of as many processes as the call says."""
    world = get_mesh(call).size
    _refuse_parts(call)
    return find_team(__name__, world).call(call)


def _refuse_parts(call: Call) -> None:
    """Refuse gradients that the engine does not have."""
    world = get_mesh(call).size
    for gradient in call.gradients:
        axis = find_sharded_axis(gradient)
        if axis is None or gradient.array is None:
            continue
        if "[DDP]" in call.subject:
            message = "DDP gives each process a copy of each gradient"
            raise Unsupported(message, "interface")
        if "[FSDP2]" in call.subject and axis and gradient.array.shape[axis] % world:
            message = "FSDP2 splits unevenly along the first axis only"
            raise Unsupported(message, "interface")


def load() -> Join:
    """Return the function that makes a process a member of the group."""
    import_engines()
    return _join


def _join(rank: int, world: int, folder: str, ask: Ask) -> Answer:
    del ask
    join_group(rank, world, folder)
    make = torch.distributed.device_mesh.init_device_mesh if HAS_MESH else lambda *_, **__: None
    mesh = make("cpu", (world,), mesh_dim_names=("ranks",))
    return lambda call: _answer(call, rank, mesh)


def _answer(call: Call, rank: int, mesh: Any) -> Reply:
    """Clip in this process. The call holds whole gradients, and the reply the parts of this process."""
    parameters = BUILDERS[call.subject.partition("[")[2].rstrip("]")](call, rank, mesh)
    by_value = call.subject.startswith("torch.nn.utils.clip_grad_value_")
    return clip_parameters(call, parameters, clip_value if by_value else clip_norm)


def import_engines() -> None:
    """Import what the engines of torch need. Processes that are forked later share it, and start faster."""
    for name in USED_BY_ENGINES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def join_group_of_one() -> None:
    """Make the default group of torch with this process only. Other processes and the network are not used."""
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)


def join_group(rank: int, world: int, folder: str) -> None:
    """Make this process a member of the default group of torch. The processes find each other by a file in a folder."""
    if os.name == "posix":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    rendezvous = Path(folder, "rendezvous").as_uri()
    torch.distributed.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=world)


def set_variables(rank: int, world: int) -> None:
    """Set the variables that torchrun sets. Trainers read them; nothing connects to the port, as there is a group."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world))
    os.environ.update(GROUP_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="29500", OMP_NUM_THREADS="1")
    # Fabric looks for it to see that the processes have been started.
    os.environ.update(TORCHELASTIC_RUN_ID="none")


def clip_parameters(call: Call, parameters: Sequence[Parameter], clip: Clip, watched: Any = None) -> Reply:
    """Clip the gradients of parameters, and return the parts of this process. `watched` is entered around the clip."""
    options = add_flags(call)
    before = [parameter.grad for parameter in parameters]
    with framework_call() as seen, watched or contextlib.nullcontext():
        norm = clip(lambda: parameters, options)
    results = read_arrays([take_local(parameter.grad) for parameter in parameters])
    inputs = read_arrays(list(map(take_local, before)))
    # A user reads the number with `float(norm)`, which reads the part of this process.
    total = None if norm is None else read_array(take_local(norm))
    return Reply(gradients=results, norm=total, inputs=inputs, warnings=seen.warnings)


def clip_value(passed: Callable[[], Parameters], options: Mapping[str, Any]) -> None:
    """Clip by torch's function by value."""
    torch.nn.utils.clip_grad_value_(passed(), options["max"], **select_more(options))


def clip_norm(passed: Callable[[], Parameters], options: Mapping[str, Any]) -> Any:
    """Clip by torch's function by norm, and return the norm."""
    return torch.nn.utils.clip_grad_norm_(passed(), options["clip_norm"], **select_more(options))


def take_local(tensor: Any) -> Any:
    """Return the part of a DTensor that this process has, and any other object as it is."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def list_tensors(call: Call) -> list[torch.Tensor | None]:
    """Return the whole gradients, and None where there is none."""
    return [None if gradient.array is None else make_tensor(gradient.array) for gradient in call.gradients]


def list_addends(call: Call, rank: int, mesh: Mesh) -> list[torch.Tensor | None]:
    """Return gradients of one rank of a mesh, which DDP and FSDP2 average over the mesh to those of the call.

    Only the first rank has any. So a clip of each process's own gradients, before they are averaged, is wrong.
    """
    tensors = list_tensors(call)
    if rank:
        return [None if tensor is None else torch.zeros_like(tensor) for tensor in tensors]
    return [None if tensor is None else tensor * mesh.size for tensor in tensors]


def _make_dtensors(call: Call, rank: int, mesh: Any) -> list[Parameter]:
    # Older torch has no DTensor.
    from .dtensors import make_dtensors

    return make_dtensors(call, rank, mesh)


def make_zeros(tensors: Sequence[torch.Tensor | None]) -> list[torch.Tensor]:
    """Return zeros like each tensor. Those without one have the dtype of the others, because engines take one dtype."""
    dtype = next((tensor.dtype for tensor in tensors if tensor is not None), torch.float32)
    return [torch.zeros(1, dtype=dtype) if tensor is None else torch.zeros_like(tensor) for tensor in tensors]


def _make_model(gradients: Sequence[torch.Tensor | None]) -> GivenGradients:
    parameters = list(map(Parameter, make_zeros(gradients)))
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad = gradient
    return GivenGradients(parameters)


def make_fully_sharded(call: Call, rank: int, mesh: Any) -> list[Parameter]:
    """Return the parameters of a module that FSDP2 shards, after a backward pass. It ignores those that are copied."""
    from torch.distributed.fsdp import fully_shard
    from torch.distributed.tensor import Shard

    split = [find_sharded_axis(gradient) for gradient in call.gradients]
    tensors = zip(split, list_tensors(call), list_addends(call, rank, get_mesh(call)))
    model = _make_model([whole if axis is None else addend for axis, whole, addend in tensors])
    axes = {id(parameter): axis or 0 for parameter, axis in zip(model.held, split)}
    pairs = zip(model.held, call.gradients, split)
    copied = {parameter for parameter, gradient, axis in pairs if axis is None and gradient.array is not None}
    fully_shard(
        model, mesh=mesh, shard_placement_fn=lambda parameter: Shard(axes[id(parameter)]), ignored_params=copied
    )
    model().backward()
    return list(model.held)


def _make_replicated(call: Call, rank: int, mesh: Any) -> list[Parameter]:
    """Return the parameters of a module in DDP, after a backward pass."""
    del mesh
    model = _make_model(list_addends(call, rank, get_mesh(call)))
    is_partial = any(gradient.array is None for gradient in call.gradients)
    replicated = torch.nn.parallel.DistributedDataParallel(model, find_unused_parameters=is_partial)
    replicated().backward()
    return list(model.held)


#: The functions that make the parameters of each engine.
BUILDERS: dict[str, Callable[[Call, int, Any], list[Parameter]]] = {
    "DTensor": _make_dtensors,
    "FSDP2": make_fully_sharded,
    "DDP": _make_replicated,
}
