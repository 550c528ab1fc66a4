"""Take a step of DeepSpeed's engine on a mesh whose ranks own experts (see `deepspeed_engine`).

The mesh has the axes `replica` and `expert`. A parameter that ranks along `expert` own is the weight of an expert of
DeepSpeed's layer `MoE`, and every other one is dense.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Callable, Mapping, Sequence

import torch
from torch.nn import Module, Parameter

from ...contract import Call, EntryPoint, Reply, Unsupported
from ...mesh import Mesh, find_placement, find_sharded_axis, get_mesh, list_gradients
from ...processes import Answer, Ask, Join, find_team
from ...watched_team import WatchedTeam
from .deepspeed_engine import (
    MoE,
    answer_with_parts,
    join_processes,
    make_addend,
    split_params_into_different_moe_groups_for_optimizer,
    take_step,
)
from .dtensors import has_equal_experts, is_owned
from .given_gradients import GivenGradients
from .watched_collectives import WatchedCollectives

__all__ = ["EXPERT_STEPS", "answer_with_experts", "load"]

#: The mesh of a model with experts, as DeepSpeed numbers the ranks: those of an expert are replicas.
EXPERT_MESH = {"replica": 2, "expert": 2}
# DeepSpeed refuses ZeRO 3: "Native DeepSpeed MoE is not supported with ZeRO Stage 3."
EXPERT_STEPS = {
    f"deepspeed.initialize(gradient_clipping)[ZeRO {stage}, experts]": EntryPoint(
        f"deepspeed.initialize(gradient_clipping)[ZeRO {stage}, experts]",
        "clip_by_global_norm",
        ("float32",),
        ("none_grads", "returns_norm", "optimizer", "distributed"),
        formula={"kind": "coefficient", "eps": 1e-6},
        mesh=EXPERT_MESH,
    )
    for stage in (0, 1, 2)
}


def answer_with_experts(call: Call) -> Reply:
    """Return the answer of the processes of the call's mesh."""
    mesh = get_mesh(call)
    _refuse_parts(call)
    return find_team(__name__, mesh.size, WatchedTeam, mesh=mesh.axes).call(call)


def _refuse_parts(call: Call) -> None:
    """Refuse gradients that the engine does not have.

    Raises
    ------
    Unsupported
        If experts differ in their shapes from rank to rank, or if ranks share out a gradient without ZeRO.
    """
    if not has_equal_experts(call):
        message = "every rank of DeepSpeed's expert-parallel group has as many experts, of the same shapes"
        raise Unsupported(message, "interface")
    if "ZeRO 0" in call.subject and any(find_sharded_axis(gradient) is not None for gradient in call.gradients):
        message = "without ZeRO, each process has a copy of each gradient"
        raise Unsupported(message, "interface")


def load(mesh: Mapping[str, int]) -> Join:
    """Return the function that makes a process a rank of the mesh."""

    def join(rank: int, world: int, folder: str, ask: Ask) -> Answer:
        join_processes(rank, world, folder)
        watched = WatchedCollectives(Mesh(mesh), rank, ask)

        def answer(call: Call) -> Reply:
            with watched:
                return _answer(call, rank)

        return answer

    return join


def _answer(call: Call, rank: int) -> Reply:
    """Take a step in this process, and return its parts. The engine averages the gradients of all processes."""
    mesh = get_mesh(call)
    coordinates = mesh.find_coordinates(rank)
    wholes = [call.gradients[place] for place in list_gradients(call, rank)]
    experts = [place for place, whole in enumerate(wholes) if is_owned(whole, "expert")]
    addends = []
    for place, whole in enumerate(wholes):
        # The engine divides all sums by the number of processes. An expert's sum is over its replicas.
        is_first = not coordinates["replica"] if place in experts else not rank
        addends.append(make_addend(whole, mesh.size, is_first=is_first))
        if find_placement(whole, "expert") == f"only on {1 - coordinates['expert']}":
            addends[-1] = replace(whole, array=None)
    shapes = [(1,) if whole.array is None else whole.array.shape for whole in wholes]
    stage = int(re.findall("ZeRO ([0-9])", call.subject)[0])

    def step(passed: Callable[[], list[Parameter]], options: Mapping[str, Any]) -> Any:
        parameters = passed()
        model = _WithExperts(parameters, experts, mesh.axes["expert"])
        for parameter, shape in zip(parameters, shapes):
            parameter.data = torch.zeros(shape, dtype=parameter.dtype)
        groups = {"params": list(model.parameters()), "name": "all"}
        norm = take_step(model, split_params_into_different_moe_groups_for_optimizer(groups), options, stage)
        for parameter, gradient in zip(parameters, model.given):
            parameter.grad = gradient
        return norm

    entry: EntryPoint = replace(EXPERT_STEPS[call.subject], clip=step)
    return answer_with_parts(entry, call, addends, wholes, rank)


class _WithExperts(GivenGradients):
    """A model in which some parameters are the weights of experts. The gradient of the layer's gate is zero."""

    def __init__(self, parameters: Sequence[Parameter], experts: Sequence[int], size: int) -> None:
        super().__init__(parameters)
        if not experts:
            return
        self.moe = MoE(1, _Expert(), num_experts=size * len(experts), ep_size=size)
        for place, expert in zip(experts, self.moe.deepspeed_moe.experts.deepspeed_experts):
            parameter = parameters[place]
            # DeepSpeed knows the weight of an expert by these attributes, which the layer has set.
            parameter.allreduce, parameter.group_name = expert.weight.allreduce, expert.weight.group_name
            expert.weight = parameter

    def forward(self, *_: Any) -> torch.Tensor:
        """Return the loss. It depends on the gate, so that a rank whose experts have no gradient has a loss, too."""
        loss = super().forward()
        return loss + 0.0 * self.moe.deepspeed_moe.gate.wg.weight.sum().double() if hasattr(self, "moe") else loss


class _Expert(Module):  # type: ignore[misc] # mypy does not see torch
    """An expert with one weight."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = Parameter(torch.zeros(1))
