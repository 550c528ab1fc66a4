"""Make a group of one process, for packages whose clips work only in a group of torch."""

from __future__ import annotations

import torch

__all__ = ["join_group_of_one"]


def join_group_of_one() -> None:
    """Make the default group of torch with this process only. Other processes and the network are not used."""
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
