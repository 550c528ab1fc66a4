"""Torch tensors on several devices: each device looks at its own, and four numbers of each travel to the first."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any

from gradclip_spec._primitives import Primitives

__all__ = ["on_devices"]

Tensor = Any


@lru_cache
def on_devices(primitives: Primitives, first: Any) -> Primitives:
    """The primitives of torch for tensors on several devices; numbers of all of them are on the first."""

    def rows_of_devices(tensors: Sequence[Tensor], summary: Callable[[Sequence[Tensor]], Sequence[Any]]) -> Tensor:
        import torch

        groups: dict[Any, list[Tensor]] = {}
        for tensor in tensors:
            groups.setdefault(tensor.device, []).append(tensor)
        rows = [
            torch.stack([torch.as_tensor(number, dtype=torch.float64, device=device) for number in summary(alike)])
            for device, alike in groups.items()
        ]
        return torch.stack([row.to(first) for row in rows])

    def multiply(tensors: Sequence[Tensor], k: Tensor, wide: Any, inplace: bool) -> list[Tensor]:
        factors = {device: k.to(device) for device in {tensor.device for tensor in tensors}}
        return [primitives.multiply([tensor], factors[tensor.device], wide, inplace)[0] for tensor in tensors]

    return replace(primitives, multiply=multiply, rows_of_blocks=rows_of_devices)
