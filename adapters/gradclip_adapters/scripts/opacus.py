"""Call the clips of Opacus."""

import torch
from opacus.optimizers import DPOptimizer, DPPerLayerOptimizer

from .torch import make, make_sliced, make_strided, make_transposed, read_bfloat16


def clip(optimizer, gradients, max_grad_norm):
    parameters = [torch.nn.Parameter(gradient.new_zeros(gradient.shape[1:])) for gradient in gradients]
    for parameter, gradient in zip(parameters, gradients):
        parameter.grad_sample = gradient
    sgd = torch.optim.SGD(parameters, lr=1.0)
    quiet = {"noise_multiplier": 0.0, "expected_batch_size": None, "loss_reduction": "sum"}
    optimizer(sgd, max_grad_norm=max_grad_norm, **quiet).pre_step()
    return [parameter.grad for parameter in parameters], None


def clip_examples(gradients, *, clip_norm):
    return clip(DPOptimizer, gradients, clip_norm)


def clip_layers(gradients, *, clip_norm, layers="equal"):
    sizes = [gradient[0].numel() if layers == "by size" else 1 for gradient in gradients]
    shares = [(size / sum(sizes)) ** 0.5 if size else 1.0 for size in sizes]
    return clip(DPPerLayerOptimizer, gradients, [clip_norm * share for share in shares])


ENTRY_POINTS = {
    "opacus.optimizers.DPOptimizer": clip_examples,
    "opacus.optimizers.DPPerLayerOptimizer": clip_layers,
}
