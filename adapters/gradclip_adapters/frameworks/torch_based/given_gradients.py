"""Make a model whose backward pass gives the gradients of a call, for packages that clip inside their training loop."""

from __future__ import annotations

from typing import Any, Callable, Sequence

import torch
from torch.nn import Module, Parameter, ParameterList

from ...arrays import refuse_other_dtypes
from ...contract import Call, Reply, Unsupported
from .parameters import ParametersAdapter

__all__ = ["GivenGradients", "TrainingAdapter", "train_model"]


class TrainingAdapter(ParametersAdapter):
    """Adapter for functions that clip inside a training loop. The backward pass makes the gradients."""

    def call(self, call: Call) -> Reply:
        """Train for one step from zero, and return the negated parameters."""
        if any(gradient.layout != "contiguous" or gradient.rows is not None for gradient in call.gradients):
            message = "the backward pass makes the gradients, dense and without gaps"
            raise Unsupported(message, "interface")
        if any(name in call.options for name in ("threads", "reused", "followed")):
            message = "each call trains a model of its own, alone"
            raise Unsupported(message)
        refuse_other_dtypes(call, self.entry_points[call.subject])
        return super().call(call)


class GivenGradients(Module):  # type: ignore[misc] # mypy does not see torch
    """A model whose loss is the sum of the parameters times the given gradients. So these are its gradients."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        super().__init__()
        self.held = ParameterList(parameters)
        self.given = [parameter.grad for parameter in parameters]
        for parameter in parameters:
            parameter.grad = None

    def forward(self, *_: Any) -> torch.Tensor:
        """Return the loss. A parameter without a gradient takes no part in it."""
        # The backward pass needs something that requires a gradient, even if no parameter has one.
        loss = torch.zeros((), dtype=torch.float64, requires_grad=True)
        for parameter, gradient in zip(self.held, self.given):
            if gradient is not None:
                # The sum may overflow in the dtype of the gradient. Its derivative is the gradient itself.
                total = (parameter * gradient).sum()
                loss = loss + (total.full_tensor() if hasattr(total, "full_tensor") else total).double()
        return loss


def train_model(parameters: Sequence[Parameter], train: Callable[[GivenGradients], Any]) -> Any:
    """Let a package train a model with the parameters, put the given gradients back, and return what it returns."""
    model = GivenGradients(parameters)
    returned = train(model)
    for parameter, gradient in zip(parameters, model.given):
        parameter.grad = gradient
    return returned
