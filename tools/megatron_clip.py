"""Call the clip of Megatron Core on the gradients of a mesh: `tools/gpu.py` checks this function on a GPU.

Megatron Core needs tensors of CUDA, so this function copies each gradient to the GPU and back. Several ranks may share
one GPU, because gloo reduces tensors of CUDA, too. `gradclip check tools.megatron_clip:clip --op clip_by_global_norm
--mesh data=2,tensor=2 --arrays torch --dtype float32 --formula coefficient:1e-6` asks it alone.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor

with warnings.catch_warnings():
    # It warns that it uses its own kernels, if those of Transformer Engine and Apex are missing.
    warnings.simplefilter("ignore", UserWarning)
    from megatron.core.optimizer.clip_grads import clip_grad_by_total_norm_fp32, get_grad_norm_fp32
    from megatron.core.tensor_parallel import param_is_not_tensor_parallel_duplicate


def clip(
    parameters: Iterable[torch.nn.Parameter],
    *,
    clip_norm: float,
    norm_type: float = 2.0,
    mesh: DeviceMesh,
    placements: Sequence[Mapping[str, int | str]],
) -> float:
    """Clip gradients in place as the optimizers of Megatron Core do, and return the norm.

    The norm is that over the ranks of the axis "tensor". A parameter that is sharded or owned along this axis has the
    attribute `tensor_model_parallel`. Of the copies of any other one, Megatron Core counts that on the first rank.
    """
    group = mesh["tensor"].get_group()
    parts, copies = [], []
    for parameter, placement in zip(parameters, placements, strict=True):
        if parameter.grad is None:
            continue
        grad = parameter.grad
        part = grad.to_local() if isinstance(grad, DTensor) else grad
        copy = torch.nn.Parameter(torch.empty_like(part, device="cuda"))
        copy.grad = part.to("cuda", copy=True)
        copy.tensor_model_parallel = placement["tensor"] != "replicated"
        parts.append(part)
        copies.append(copy)
    counted = [copy.grad for copy in copies if param_is_not_tensor_parallel_duplicate(copy, group)]
    norm = get_grad_norm_fp32(counted, norm_type, group)
    clip_grad_by_total_norm_fp32(copies, clip_norm, norm)
    for part, copy in zip(parts, copies, strict=True):
        part.copy_(copy.grad)
    return float(norm)
