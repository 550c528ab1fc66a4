"""Adapt DeepSpeed: a step of its engine with `gradient_clipping`, with and without ZeRO, and two of its functions.

DeepSpeed computes on the CPU and communicates over gloo. The mesh of a model with experts has the axes `replica` and
`expert`. A parameter that ranks along `expert` own is the weight of an expert of DeepSpeed's layer `MoE`, and every
other one is dense.
"""

from __future__ import annotations

import os
import re
import warnings
from dataclasses import replace
from functools import partial
from typing import Any, Callable, Mapping, Sequence

# DeepSpeed reads the first one when it is imported, and the second one when it makes an engine.
os.environ.setdefault("DS_ACCELERATOR", "cpu")
os.environ.setdefault("LOCAL_RANK", "0")

import torch

with warnings.catch_warnings():
    # DeepSpeed imports parts of torch that are deprecated.
    warnings.simplefilter("ignore")
    import deepspeed

    # The first engines import this, which takes seconds. The processes of a team are forks of one that has it.
    import torch._inductor.compile_fx
    from deepspeed.accelerator import get_accelerator
    from deepspeed.moe.layer import MoE
    from deepspeed.moe.utils import split_params_into_different_moe_groups_for_optimizer
    from deepspeed.runtime.utils import clip_grad_norm_, clip_tensors_by_global_norm
from torch.nn import Module, Parameter

from ...arrays import refuse_other_dtypes
from ...contract import Call, EntryPoint, Gradient, Reply, Unsupported
from ...mesh import Mesh, cut_array, find_placement, find_sharded_axis, get_mesh, list_gradients
from ...processes import Answer, Ask, Join, find_team
from ...watched_team import WatchedTeam
from .distributed import join_group, join_group_of_one
from .engine_meshes import has_equal_experts, is_owned
from .parameters import (
    ANY_NORM,
    COMMON,
    NORM_TYPES,
    GivenGradients,
    Parameters,
    ParametersAdapter,
    TrainingAdapter,
    answer_call,
    make_tensor,
    read_array,
    select_more,
    train_model,
)
from .watched_collectives import WatchedCollectives

#: The dtypes that a configuration offers.
DTYPES = ("float16", "bfloat16", "float32")
#: The mesh of a model with experts, as DeepSpeed numbers the ranks: those of an expert are replicas.
EXPERT_MESH = {"replica": 2, "expert": 2}


class DeepSpeedAdapter(TrainingAdapter):
    """Adapter for the clips of DeepSpeed."""

    def __init__(self) -> None:
        """Join a group of one process, because all entry points ask the group for its size."""
        join_group_of_one()
        _use_group()
        steps = [*STEPS, *SHARED_STEPS.values(), *EXPERT_STEPS.values()]
        super().__init__("DeepSpeed", deepspeed.__version__, [*FUNCTIONS, *steps])

    def call(self, call: Call) -> Reply:
        """Return the answer of the entry point that the call names. Several processes answer a distributed call."""
        if any(gradient.array is not None and gradient.array.dtype == "float64" for gradient in call.gradients):
            message = "DeepSpeed trains in fp32, bf16 and fp16, and its engine refuses to average float64"
            raise Unsupported(message, "interface")
        entry = self.entry_points[call.subject]
        if entry in FUNCTIONS:
            # No training makes their gradients.
            return ParametersAdapter.call(self, call)
        _refuse(call, entry)
        if entry in STEPS:
            return super().call(call)
        mesh = get_mesh(call)
        if call.subject in SHARED_STEPS:
            return find_team(__name__, mesh.size).call(call)
        _refuse_parts(call)
        return find_team(__name__, mesh.size, WatchedTeam, mesh=mesh.axes).call(call)


def _refuse(call: Call, entry_point: EntryPoint) -> None:
    """Refuse gradients that the engine does not have."""
    dtypes = {gradient.array.dtype for gradient in call.gradients if gradient.array is not None}
    if call.gradients and not dtypes:
        message = "the engine takes a loss that depends on a parameter"
        raise Unsupported(message, "interface")
    if len(dtypes) > 1:
        message = "the engine converts the whole model to one dtype"
        raise Unsupported(message, "interface")
    if "float16" in dtypes and not get_accelerator().is_fp16_supported():
        message = "DeepSpeed supports no fp16 on this CPU"
        raise Unsupported(message, "kernel")
    refuse_other_dtypes(call, entry_point)


def _refuse_parts(call: Call) -> None:
    """Refuse gradients that the engine does not have for a model with experts."""
    if not has_equal_experts(call):
        message = "every rank of DeepSpeed's expert-parallel group has as many experts, of the same shapes"
        raise Unsupported(message, "interface")
    if "ZeRO 0" in call.subject and any(find_sharded_axis(gradient) is not None for gradient in call.gradients):
        message = "without ZeRO, each process has a copy of each gradient"
        raise Unsupported(message, "interface")


def load(mesh: Mapping[str, int] | None = None) -> Join:
    """Return the function that makes a process a member of the group: a rank of a mesh with experts if there is one."""

    def join(rank: int, world: int, folder: str, ask: Ask) -> Answer:
        os.environ["LOCAL_RANK"] = str(rank)
        join_group(rank, world, folder)
        _use_group()
        if mesh is None:
            return lambda call: _answer_together(call, rank, world)
        watched = WatchedCollectives(Mesh(mesh), rank, ask)

        def answer(call: Call) -> Reply:
            with watched:
                return _answer_with_experts(call, rank)

        return answer

    return join


def _use_group() -> None:
    """Let DeepSpeed use the group of torch."""
    # It would compile a kernel for minutes, which only its inference uses.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed("gloo")


def _answer_together(call: Call, rank: int, world: int) -> Reply:
    """Take a step in this process. The engine averages the gradients of all processes, and ZeRO shares them out.

    Every process gets whole parameters back. Of those that the call shares out, it returns its part.
    """
    addends = [_make_addend(gradient, world, is_first=not rank) for gradient in call.gradients]
    return _answer_with_parts(SHARED_STEPS[call.subject], call, addends, call.gradients, rank)


def _answer_with_experts(call: Call, rank: int) -> Reply:
    """Take a step in this process, and return its parts. The engine averages the gradients of all processes."""
    mesh = get_mesh(call)
    coordinates = mesh.find_coordinates(rank)
    wholes = [call.gradients[place] for place in list_gradients(call, rank)]
    experts = [place for place, whole in enumerate(wholes) if is_owned(whole, "expert")]
    addends = []
    for place, whole in enumerate(wholes):
        # The engine divides all sums by the number of processes. An expert's sum is over its replicas.
        is_first = not coordinates["replica"] if place in experts else not rank
        addends.append(_make_addend(whole, mesh.size, is_first=is_first))
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
        norm = _take_step(model, split_params_into_different_moe_groups_for_optimizer(groups), options, stage)
        for parameter, gradient in zip(parameters, model.given):
            parameter.grad = gradient
        return norm

    entry: EntryPoint = replace(EXPERT_STEPS[call.subject], clip=step)
    return _answer_with_parts(entry, call, addends, wholes, rank)


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


def _make_addend(gradient: Gradient, world: int, *, is_first: bool) -> Gradient:
    """Return the gradient of a process. Only the first one has any, so a clip before the average is wrong."""
    if gradient.array is None:
        return gradient
    tensor = make_tensor(gradient.array)
    scaled = tensor * world
    # All processes refuse together, so that none waits for another.
    if not torch.equal(torch.isfinite(scaled), torch.isfinite(tensor)):
        message = "the gradient of one process, which the average divides, would overflow"
        raise Unsupported(message)
    return replace(gradient, array=read_array(scaled if is_first else torch.zeros_like(tensor)))


def _answer_with_parts(
    entry: EntryPoint, call: Call, addends: Sequence[Gradient], wholes: Sequence[Gradient], rank: int
) -> Reply:
    """Take a step with the addends that a process has of whole gradients. Return its parts of the results."""
    reply = answer_call(entry, replace(call, gradients=tuple(addends)))
    pairs = zip(wholes, reply.gradients)
    parts = [array and cut_array(array, whole, get_mesh(call), rank) for whole, array in pairs]
    return replace(reply, gradients=tuple(parts), inputs=None)


def _step(passed: Callable[[], list[Parameter]], options: Mapping[str, Any], stage: int) -> Any:
    parameters = passed()
    return train_model(parameters, lambda model: _take_step(model, parameters, options, stage))


def _take_step(model: GivenGradients, groups: Sequence[Any], options: Mapping[str, Any], stage: int) -> Any:
    """Take a step from zero, and return the norm. DeepSpeed may return it as a number or as a tensor, or not at all.

    `groups` are the parameters of the optimizer, or its groups of parameters.
    """
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_clipping": options["clip_norm"],
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
        "bf16": {"enabled": model.held[0].dtype == torch.bfloat16},
    }
    sgd = torch.optim.SGD(groups, lr=options.get("learning_rate", 1.0))
    engine, *_ = deepspeed.initialize(model=model, optimizer=sgd, config=config, **select_more(options))
    engine.backward(engine())
    engine.step()
    norm = engine.get_global_grad_norm()
    if stage == 3:
        _gather_parts(list(model.held))
    return torch.tensor(norm, dtype=torch.float64) if isinstance(norm, float) else norm


def _gather_parts(parameters: Sequence[Parameter]) -> None:
    """Give this process whole parameters. The engine takes them away when the context ends."""
    with deepspeed.zero.GatheredParameters(parameters):
        wholes = [parameter.detach().clone() for parameter in parameters]
    for parameter, whole in zip(parameters, wholes):
        parameter.data = whole


def _clip_parameters(passed: Callable[[], Parameters], options: Mapping[str, Any]) -> Any:
    return clip_grad_norm_(passed(), options["clip_norm"], **select_more(options))


def _clip_tensors(passed: Callable[[], list[Parameter]], options: Mapping[str, Any]) -> Any:
    tensors = [parameter.grad for parameter in passed()]
    return clip_tensors_by_global_norm(tensors, options["clip_norm"], **select_more(options))


def _list_steps(
    suffix: str,
    stages: Sequence[int],
    *features: str,
    dtypes: tuple[str, ...] = ("bfloat16", "float32"),
    mesh: Mapping[str, int] | None = None,
) -> list[EntryPoint]:
    return [
        EntryPoint(
            f"deepspeed.initialize(gradient_clipping)[ZeRO {stage}{suffix}]",
            "clip_by_global_norm",
            dtypes,
            ("none_grads", "returns_norm", "optimizer", *features),
            # In several processes, too few cells are asked to find this out. No documentation says so.
            formula={"kind": "coefficient", "eps": 1e-6} if suffix else None,
            mesh=mesh,
            clip=partial(_step, stage=stage),
        )
        for stage in stages
    ]


# The entry points

FUNCTIONS = [
    EntryPoint(
        "deepspeed.runtime.utils.clip_grad_norm_",
        "clip_by_global_norm",
        DTYPES,
        (*COMMON, *ANY_NORM, "in_place"),
        NORM_TYPES,
        clip=_clip_parameters,
    ),
    EntryPoint(
        "deepspeed.runtime.utils.clip_tensors_by_global_norm",
        "clip_by_global_norm",
        DTYPES,
        (
            *(name for name in COMMON if name not in ("none_grads", "generator", "single")),
            "returns_norm",
            "in_place",
            "eps",
        ),
        clip=_clip_tensors,
    ),
]
STEPS = _list_steps("", (0, 1, 2), "learning_rate")
# ZeRO 3 differs from ZeRO 2 in the parts of the parameters, and one process has no parts.
SHARED_STEPS = {entry.name: entry for entry in _list_steps(", distributed", (0, 1, 2, 3), "distributed")}
# DeepSpeed refuses ZeRO 3: "Native DeepSpeed MoE is not supported with ZeRO Stage 3."
EXPERT_STEPS = {
    entry.name: entry
    for entry in _list_steps(", experts", (0, 1, 2), "distributed", dtypes=("float32",), mesh=EXPERT_MESH)
}
