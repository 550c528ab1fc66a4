"""Adapt DeepSpeed: a step of its engine with `gradient_clipping`, with and without ZeRO, and two of its functions.

DeepSpeed computes on the CPU and communicates over gloo. `deepspeed_experts` has the steps of models with experts.
"""

from __future__ import annotations

import os
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
    from deepspeed.runtime.utils import clip_grad_norm_, clip_tensors_by_global_norm
from torch.nn import Parameter

from ...arrays import refuse_other_dtypes
from ...contract import Call, EntryPoint, Gradient, Reply, Unsupported
from ...mesh import cut_array, get_mesh
from ...processes import Answer, Team
from .given_gradients import GivenGradients, TrainingAdapter
from .parameters import (
    ANY_NORM,
    COMMON,
    NORM_TYPES,
    Parameters,
    ParametersAdapter,
    answer_call,
    make_tensor,
    read_array,
    select_more,
)
from .process_group import join_group, join_group_of_one

__all__ = ["EXPERT_STEPS", "DeepSpeedAdapter", "join", "join_processes", "make_addend", "take_step"]

#: The dtypes that a configuration offers.
DTYPES = ("float16", "bfloat16", "float32")

#: The module that the processes import, and the teams of each number of processes.
MODULE = __name__
_TEAMS: dict[int, Team] = {}


class DeepSpeedAdapter(ParametersAdapter):
    """Adapter for the clips of DeepSpeed."""

    def __init__(self) -> None:
        """Join a group of one process, because all entry points ask the group for its size."""
        join_group_of_one()
        _use_group()
        super().__init__("DeepSpeed", deepspeed.__version__, FUNCTIONS)
        self._engine = TrainingAdapter("DeepSpeed", deepspeed.__version__, STEPS)

    def subjects(self) -> Sequence[EntryPoint]:
        """Return all entry points, the distributed ones last."""
        return [*super().subjects(), *self._engine.subjects(), *SHARED_STEPS.values(), *EXPERT_STEPS.values()]

    def call(self, call: Call) -> Reply:
        """Return the answer of the entry point that the call names. Several processes answer a distributed call.

        Raises
        ------
        Unsupported
            If a gradient is in float64.
        """
        if any(gradient.array is not None and gradient.array.dtype == "float64" for gradient in call.gradients):
            message = "DeepSpeed trains in fp32, bf16 and fp16, and its engine refuses to average float64"
            raise Unsupported(message, "interface")
        steps = {**self._engine.entry_points, **SHARED_STEPS, **EXPERT_STEPS}
        if call.subject not in steps:
            return super().call(call)
        _refuse(call, steps[call.subject])
        if call.subject in self._engine.entry_points:
            return self._engine.call(call)
        if call.subject in EXPERT_STEPS:
            # That module imports this one.
            from .deepspeed_experts import answer_with_experts

            return answer_with_experts(call)
        world = get_mesh(call).size
        return _TEAMS.setdefault(world, Team(MODULE, world)).call(call)


def _refuse(call: Call, subject: EntryPoint) -> None:
    """Refuse gradients that the engine does not have.

    Raises
    ------
    Unsupported
        If no parameter has a gradient, or if the gradients have several dtypes, or one that this CPU does not support.
    """
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
    refuse_other_dtypes(call, subject)


def join(rank: int, world: int, folder: str) -> Answer:
    """Join the group of processes, and return the function that answers its calls."""
    join_processes(rank, world, folder)
    return lambda call: _answer_together(call, rank, world)


def join_processes(rank: int, world: int, folder: str) -> None:
    """Make this process a member of the group, and let DeepSpeed use it."""
    os.environ["LOCAL_RANK"] = str(rank)
    join_group(rank, world, folder)
    _use_group()


def _use_group() -> None:
    """Let DeepSpeed use the group of torch."""
    # It would compile a kernel for minutes, which only its inference uses.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed("gloo")


def _answer_together(call: Call, rank: int, world: int) -> Reply:
    """Take a step in this process. The engine averages the gradients of all processes, and ZeRO shares them out.

    Every process gets whole parameters back. Of those that the call shares out, it returns its part.
    """
    addends = tuple(make_addend(gradient, world, is_first=not rank) for gradient in call.gradients)
    options = {name: value for name, value in call.options.items() if name != "mesh"}
    reply = answer_call(SHARED_STEPS[call.subject], replace(call, gradients=addends, options=options))
    parts = [
        array if array is None else cut_array(array, gradient, get_mesh(call), rank)
        for gradient, array in zip(call.gradients, reply.gradients)
    ]
    return replace(reply, gradients=tuple(parts), inputs=None)


def make_addend(gradient: Gradient, world: int, *, is_first: bool) -> Gradient:
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


def _step(passed: Callable[[], list[Parameter]], options: Mapping[str, Any], stage: int) -> Any:
    parameters = passed()
    model = GivenGradients(parameters)
    norm = take_step(model, parameters, options, stage)
    for parameter, gradient in zip(parameters, model.given):
        parameter.grad = gradient
    return norm


def take_step(model: GivenGradients, groups: Sequence[Any], options: Mapping[str, Any], stage: int) -> Any:
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


def _list_steps(suffix: str, stages: Sequence[int], *features: str) -> list[EntryPoint]:
    return [
        EntryPoint(
            f"deepspeed.initialize(gradient_clipping)[ZeRO {stage}{suffix}]",
            "clip_by_global_norm",
            ("bfloat16", "float32"),
            ("none_grads", "returns_norm", "optimizer", *features),
            # In several processes, too few cells are asked to find this out. No documentation says so.
            formula={"kind": "coefficient", "eps": 1e-6} if suffix else None,
            clip=partial(_step, stage=stage),
        )
        for stage in stages
    ]


STEPS = _list_steps("", (0, 1, 2), "learning_rate")
# ZeRO 3 differs from ZeRO 2 in the parts of the parameters, and one process has no parts.
SHARED_STEPS = {entry.name: entry for entry in _list_steps(", distributed", (0, 1, 2, 3), "distributed")}

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
        clip=partial(_step, stage=stage),
    )
    for stage in (0, 1, 2)
}
