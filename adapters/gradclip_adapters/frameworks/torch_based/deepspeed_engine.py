"""Join processes that DeepSpeed uses, and take steps of its engine.

DeepSpeed computes on the CPU and communicates over gloo. No other module of the adapter imports it, because this one
sets the variables that it reads.
"""

from __future__ import annotations

import os
import warnings
from dataclasses import replace
from typing import Any, Mapping, Sequence

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
from torch.nn import Parameter

from ...contract import Call, EntryPoint, Gradient, Reply, Unsupported
from ...mesh import cut_array, get_mesh
from .given_gradients import GivenGradients
from .parameters import answer_call, make_tensor, read_array, select_more
from .process_group import join_group

__all__ = [
    "MoE",
    "answer_with_parts",
    "clip_grad_norm_",
    "clip_tensors_by_global_norm",
    "deepspeed",
    "get_accelerator",
    "join_processes",
    "make_addend",
    "split_params_into_different_moe_groups_for_optimizer",
    "take_step",
    "use_group",
]


def join_processes(rank: int, world: int, folder: str) -> None:
    """Make this process a member of the group, and let DeepSpeed use it."""
    os.environ["LOCAL_RANK"] = str(rank)
    join_group(rank, world, folder)
    use_group()


def use_group() -> None:
    """Let DeepSpeed use the group of torch."""
    # It would compile a kernel for minutes, which only its inference uses.
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed("gloo")


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


def answer_with_parts(
    entry: EntryPoint, call: Call, addends: Sequence[Gradient], wholes: Sequence[Gradient], rank: int
) -> Reply:
    """Take a step with the addends that a process has of whole gradients. Return its parts of the results."""
    reply = answer_call(entry, replace(call, gradients=tuple(addends)))
    pairs = zip(wholes, reply.gradients)
    parts = [array and cut_array(array, whole, get_mesh(call), rank) for whole, array in pairs]
    return replace(reply, gradients=tuple(parts), inputs=None)


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
