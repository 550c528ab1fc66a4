"""Document 004: compare its source of `clip_grad_norm_` with the function of the installed torch."""

from collections.abc import Iterable
from math import inf

import torch

_tensor_or_tensors = torch.Tensor | Iterable[torch.Tensor]


# fmt: off
def clip_grad_norm_(parameters: _tensor_or_tensors, max_norm: float, norm_type: float = 2.0) -> torch.Tensor:
    """Clip the gradient norm of an iterable of parameters. The body is copied from the document."""
    if isinstance(parameters, torch.Tensor):
        parameters = [parameters]
    parameters = [p for p in parameters if p.grad is not None]
    max_norm = float(max_norm)
    norm_type = float(norm_type)
    if len(parameters) == 0:
        return torch.tensor(0.)
    device = parameters[0].grad.device
    if norm_type == inf:
        total_norm = max(p.grad.detach().abs().max().to(device) for p in parameters)
    else:
        total_norm = torch.norm(torch.stack([torch.norm(p.grad.detach(), norm_type).to(device) for p in parameters]), norm_type)  # noqa: E501
    clip_coef = max_norm / (total_norm + 1e-6)
    if clip_coef < 1:
        for p in parameters:
            p.grad.detach().mul_(clip_coef.to(p.grad.device))
    return total_norm
# fmt: on


GRADIENTS = [[3.0, 0.0], [[0.0], [-4.0]]]


def make_parameters(gradients: list) -> list[torch.Tensor]:
    """Return parameters that carry these gradients, and one without a gradient."""
    parameters = [torch.zeros(torch.tensor(gradient).shape, requires_grad=True) for gradient in gradients]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = torch.tensor(gradient)
    return [*parameters, torch.zeros(1, requires_grad=True)]


for norm_type, total in ((2.0, 5.0), (1.0, 7.0), (inf, 4.0)):
    for max_norm in (0.5, 100.0):
        printed, installed = make_parameters(GRADIENTS), make_parameters(GRADIENTS)
        objects = [parameter.grad for parameter in printed]

        returned = clip_grad_norm_(printed, max_norm, norm_type)

        # "Total norm of the parameters (viewed as a single vector)", before clipping. Both totals are exact here.
        assert float(returned) == total
        assert float(torch.nn.utils.clip_grad_norm_(installed, max_norm, norm_type)) == total
        assert printed[-1].grad is None
        coefficient = min(1.0, max_norm / (total + 1e-6))
        for mine, theirs, passed, gradient in zip(printed[:-1], installed[:-1], objects[:-1], GRADIENTS, strict=True):
            # "Gradients are modified in-place."
            assert mine.grad is passed
            expected = torch.tensor(gradient, dtype=torch.float64) * coefficient
            # Four results are rounded to float32: total + 1e-6, the quotient, its conversion and the product.
            for found in (mine.grad, theirs.grad):
                assert torch.all((found - expected).abs() <= 4 * 2.0**-24 * expected.abs()), (found, expected)

assert float(clip_grad_norm_([torch.zeros(1, requires_grad=True)], 1.0)) == 0.0
