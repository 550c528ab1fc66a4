"""Adapt DeepSpeed: a step of its engine with `gradient_clipping`, with and without ZeRO, and two of its functions.

`deepspeed_engine` takes the steps, and `deepspeed_experts` those of models with experts.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Callable, Mapping, Sequence

from torch.nn import Parameter

from ...arrays import refuse_other_dtypes
from ...contract import Call, EntryPoint, Reply, Unsupported
from ...mesh import get_mesh
from ...processes import Answer, Ask, Join, find_team
from .deepspeed_engine import (
    answer_with_parts,
    clip_grad_norm_,
    clip_tensors_by_global_norm,
    deepspeed,
    get_accelerator,
    join_processes,
    make_addend,
    take_step,
    use_group,
)
from .deepspeed_experts import EXPERT_STEPS, answer_with_experts
from .given_gradients import TrainingAdapter, train_model
from .parameters import (
    ANY_NORM,
    COMMON,
    NORM_TYPES,
    Parameters,
    ParametersAdapter,
    select_more,
)
from .process_group import join_group_of_one

__all__ = ["DeepSpeedAdapter", "load"]

#: The dtypes that a configuration offers.
DTYPES = ("float16", "bfloat16", "float32")


class DeepSpeedAdapter(TrainingAdapter):
    """Adapter for the clips of DeepSpeed."""

    def __init__(self) -> None:
        """Join a group of one process, because all entry points ask the group for its size."""
        join_group_of_one()
        use_group()
        steps = [*STEPS, *SHARED_STEPS.values(), *EXPERT_STEPS.values()]
        super().__init__("DeepSpeed", deepspeed.__version__, [*FUNCTIONS, *steps])

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
        entry = self.entry_points[call.subject]
        if entry in FUNCTIONS:
            # No training makes their gradients.
            return ParametersAdapter.call(self, call)
        _refuse(call, entry)
        if entry in STEPS:
            return super().call(call)
        if call.subject in EXPERT_STEPS:
            return answer_with_experts(call)
        return find_team(__name__, get_mesh(call).size).call(call)


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


def load() -> Join:
    """Return the function that makes a process a member of the group."""
    return _join


def _join(rank: int, world: int, folder: str, ask: Ask) -> Answer:
    del ask
    join_processes(rank, world, folder)
    return lambda call: _answer_together(call, rank, world)


def _answer_together(call: Call, rank: int, world: int) -> Reply:
    """Take a step in this process. The engine averages the gradients of all processes, and ZeRO shares them out.

    Every process gets whole parameters back. Of those that the call shares out, it returns its part.
    """
    addends = [make_addend(gradient, world, is_first=not rank) for gradient in call.gradients]
    return answer_with_parts(SHARED_STEPS[call.subject], call, addends, call.gradients, rank)


def _step(passed: Callable[[], list[Parameter]], options: Mapping[str, Any], stage: int) -> Any:
    parameters = passed()
    return train_model(parameters, lambda model: take_step(model, parameters, options, stage))


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
