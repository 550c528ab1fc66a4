"""Define clips of torch parameters on a mesh. The processes of a check import this module; it needs torch."""

from __future__ import annotations

import contextlib
import math
import os
import time
from collections.abc import Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Replicate
from torch.nn import Parameter
from torch.nn.utils import clip_grad_norm_

from gradclip_spec import clip_by_global_norm

Placements = Sequence[Mapping[str, Any]]


def clip_by_torch(parameters: Sequence[Parameter], *, clip_norm: float, norm_type: float = 2.0) -> torch.Tensor:
    norm = clip_grad_norm_(parameters, clip_norm, norm_type=norm_type)
    # Without a gradient, the norm is an ordinary tensor.
    return norm.full_tensor() if isinstance(norm, DTensor) else norm


def sum_squares(parameter: Parameter) -> torch.Tensor:
    gradient = parameter.grad
    if gradient is None:
        return torch.zeros((), dtype=torch.float64)
    part = gradient.to_local() if isinstance(gradient, DTensor) else gradient
    return part.double().square().sum()


def count_copies(mesh: DeviceMesh, placement: Mapping[str, Any]) -> int:
    return math.prod(mesh[name].size() for name in mesh.mesh_dim_names if placement[name] == "replicated")


def scale(parameters: Sequence[Parameter], total: torch.Tensor, clip_norm: float) -> float:
    norm = float(total.sqrt())
    if not norm <= clip_norm:
        for parameter in parameters:
            if parameter.grad is not None:
                parameter.grad.mul_(clip_norm / norm)
    return norm


def reduce_sum(
    parameters: Sequence[Parameter],
    *,
    clip_norm: float,
    mesh: DeviceMesh,
    placements: Placements,
    need_clip: list[bool],
) -> float:
    """Clip right: sum the squares of the parts, where a copy counts as its share."""
    included = [pair for pair, flag in zip(zip(parameters, placements, strict=True), need_clip, strict=True) if flag]
    total = torch.zeros((), dtype=torch.float64)
    for parameter, placement in included:
        total += sum_squares(parameter) / count_copies(mesh, placement)
    dist.all_reduce(total)
    return scale([parameter for parameter, _ in included], total, clip_norm)


def clip_by_reference(
    parameters: Sequence[Parameter], *, clip_norm: float, need_clip: list[bool], norm_type: float = 2.0
) -> torch.Tensor:
    grads = [parameter.grad for parameter in parameters]
    _, norm = clip_by_global_norm(grads, clip_norm, norm_type=norm_type, need_clip=need_clip, inplace=True)
    return norm.full_tensor() if isinstance(norm, DTensor) else torch.as_tensor(norm)


def sum_before(parameters: Sequence[Parameter], *, clip_norm: float) -> torch.Tensor:
    """Clip right: first make copies of what is not yet summed."""
    for parameter in parameters:
        grad = parameter.grad
        if isinstance(grad, DTensor):
            kept = [Replicate() if placement.is_partial() else placement for placement in grad.placements]
            parameter.grad = grad.redistribute(placements=kept)
    return clip_by_torch(parameters, clip_norm=clip_norm)


def reduce_nothing(parameters: Sequence[Parameter], *, clip_norm: float) -> float:
    return scale(parameters, sum(map(sum_squares, parameters), torch.zeros(())), clip_norm)


def count_copies_again(parameters: Sequence[Parameter], *, clip_norm: float) -> float:
    total = sum(map(sum_squares, parameters), torch.zeros((), dtype=torch.float64))
    dist.all_reduce(total)
    return scale(parameters, total, clip_norm)


def leave_early(
    parameters: Sequence[Parameter], *, clip_norm: float, mesh: DeviceMesh, placements: Placements
) -> float:
    """Return before the collective on a rank without elements."""
    if not any(float(sum_squares(parameter)) for parameter in parameters):
        return 0.0
    return reduce_sum(
        parameters, clip_norm=clip_norm, mesh=mesh, placements=placements, need_clip=[True] * len(parameters)
    )


def stay_away(mesh: DeviceMesh) -> None:
    if mesh.get_rank() != 2:
        dist.all_reduce(torch.zeros(2))


def use_other_order(mesh: DeviceMesh) -> None:
    operations = [dist.ReduceOp.SUM, dist.ReduceOp.MAX]
    for operation in operations if mesh.get_rank() != 3 else reversed(operations):
        dist.all_reduce(torch.zeros(2), op=operation, group=mesh.get_group("shard"))


def use_other_operation(mesh: DeviceMesh) -> None:
    dist.all_reduce(torch.zeros(2), op=dist.ReduceOp.MAX if mesh.get_rank() else dist.ReduceOp.SUM)


def use_other_shape(mesh: DeviceMesh) -> None:
    dist.all_reduce(torch.zeros(2 + mesh.get_rank() % 2))


def use_other_dtype(mesh: DeviceMesh) -> None:
    dist.all_reduce(torch.zeros(2, dtype=torch.float64 if mesh.get_rank() == 1 else torch.float32))


def use_other_collective(mesh: DeviceMesh) -> None:
    if mesh.get_rank():
        dist.broadcast(torch.zeros(2), 0)
    else:
        dist.all_gather([torch.zeros(2) for _ in range(4)], torch.zeros(2))


def give_other_room(mesh: DeviceMesh) -> None:
    dist.all_gather_into_tensor(torch.zeros(4 if mesh.get_rank() else 3), torch.zeros(1))


def raise_alone(mesh: DeviceMesh) -> None:
    if mesh.get_rank() == 1:
        message = "no gradient"
        raise ValueError(message)
    dist.barrier()


def catch_everything(mesh: DeviceMesh) -> None:
    try:
        stay_away(mesh)
    except BaseException:  # noqa: BLE001 - a rank must not wait even for such a function
        time.sleep(60)


def enter_again(mesh: DeviceMesh) -> None:
    while mesh.get_rank() != 2:
        with contextlib.suppress(BaseException):
            dist.all_reduce(torch.zeros(2))


def wait_for_message(mesh: DeviceMesh) -> None:
    """Send from each rank to the next one, but not from rank 1."""
    rank, value = mesh.get_rank(), torch.zeros(1)
    if rank:
        dist.recv(value, rank - 1)
    if rank not in (1, 3):
        dist.send(value, rank + 1)


def make_group_alone(mesh: DeviceMesh) -> None:
    if mesh.get_rank() < 2:
        dist.new_group([0, 1])


def use_every_collective(mesh: DeviceMesh) -> None:
    """Enter each kind of collective, all of which match. Trainers read the variables that torchrun sets."""
    assert (os.environ["LOCAL_RANK"], os.environ["WORLD_SIZE"]) == (str(mesh.get_rank()), "4")
    one, four = torch.ones(1), torch.ones(4)
    parts = [torch.zeros(1) for _ in range(4)]
    is_first = mesh.get_rank() == 0
    dist.all_reduce(one, async_op=True).wait()
    dist.all_gather(parts, one)
    dist.broadcast(one, 3)
    dist.reduce(one, 1)
    dist.gather(one, parts if is_first else None)
    dist.scatter(one, parts if is_first else None)
    dist.all_to_all_single(torch.zeros(4), four)
    dist.all_gather_object([None] * 4, {"rank": mesh.get_rank()})
    ring = [
        dist.P2POp(dist.irecv, torch.zeros(1), (mesh.get_rank() - 1) % 4),
        dist.P2POp(dist.isend, one, (mesh.get_rank() + 1) % 4),
    ]
    for work in dist.batch_isend_irecv(ring):
        work.wait()
    dist.barrier(dist.new_group([0, 1, 2, 3]))


#: What happens on a mesh `replica=2,shard=2`. The threshold of the call is the number of the situation.
SITUATIONS = (
    stay_away,
    use_other_order,
    use_other_operation,
    use_other_shape,
    use_other_dtype,
    use_other_collective,
    give_other_room,
    raise_alone,
    catch_everything,
    enter_again,
    wait_for_message,
    make_group_alone,
    use_every_collective,
)


def answer(parameters: Sequence[Parameter], *, clip_norm: float, mesh: DeviceMesh) -> None:
    SITUATIONS[int(clip_norm)](mesh)
