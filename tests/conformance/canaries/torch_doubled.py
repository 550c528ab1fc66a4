"""Replace torch's functions by NumPy code that doubles the results."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import doubled
import torch


def _list_gradients(parameters: Iterable[Any]) -> list[Any]:
    return [parameter.grad for parameter in parameters if parameter.grad is not None]


def _list_arrays(gradients: Iterable[Any]) -> list[Any]:
    return [getattr(gradient, "to_local", lambda one=gradient: one)().numpy() for gradient in gradients]


def clip_grad_value_(parameters: Iterable[Any], clip_value: float, **keywords: Any) -> None:
    """Clip with NumPy, and double the results."""
    for values in _list_arrays(_list_gradients(parameters)):
        values[...] = doubled.double_by_value(values, -clip_value, clip_value)


def clip_grad_norm_(parameters: Iterable[Any], max_norm: float, **keywords: Any) -> torch.Tensor:
    """Clip with NumPy, and double the results."""
    arrays = _list_arrays(_list_gradients(parameters))
    clipped, norm = doubled.double_by_global_norm(arrays, max_norm)
    for old, new in zip(arrays, clipped, strict=True):
        old[...] = new
    return torch.tensor(norm)


def get_total_norm(tensors: Iterable[Any], **keywords: Any) -> torch.Tensor:
    """Return the right norm."""
    return torch.tensor(doubled.compute_norm(_list_arrays(tensors)))


def clip_grads_with_norm_(parameters: Iterable[Any], max_norm: float, total_norm: torch.Tensor) -> None:
    """Scale with NumPy by the norm that was passed, and double the results."""
    for values in _list_arrays(_list_gradients(parameters)):
        values[...] = values * (2 * max_norm / float(total_norm))


torch.nn.utils.clip_grad_value_ = clip_grad_value_
torch.nn.utils.clip_grad_norm_ = clip_grad_norm_
torch.nn.utils.get_total_norm = get_total_norm
torch.nn.utils.clip_grads_with_norm_ = clip_grads_with_norm_

from gradclip_adapters.frameworks.torch import TorchAdapter  # noqa: E402 - it must find the functions replaced
from gradclip_adapters.frameworks.torch_based import distributed  # noqa: E402 - it must find them, too

# The processes of a distributed call import this module in place of the adapter's.
distributed.MODULE = Path(__file__).stem
os.environ["PYTHONPATH"] = str(Path(__file__).parent)
join = distributed.join
adapter = TorchAdapter()
