"""Make groups of processes of torch, over gloo."""

from __future__ import annotations

import contextlib
import importlib
import os
from pathlib import Path

import torch

__all__ = ["import_engines", "join_group", "join_group_of_one", "set_variables"]

#: The modules that the engines of torch import when they are first used. Older torch has fewer of them.
USED_BY_ENGINES = ("torch.distributed.tensor", "torch.distributed.fsdp", "torch._dynamo")


def import_engines() -> None:
    """Import what the engines of torch need. Processes that are forked later share it, and start faster."""
    for name in USED_BY_ENGINES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)


def join_group_of_one() -> None:
    """Make the default group of torch with this process only. Other processes and the network are not used."""
    if not torch.distributed.is_initialized():
        torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)


def join_group(rank: int, world: int, folder: str) -> None:
    """Make this process a member of the default group of torch. The processes find each other by a file in a folder."""
    if os.name == "posix":
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
    torch.set_num_threads(1)
    rendezvous = Path(folder, "rendezvous").as_uri()
    torch.distributed.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=world)


def set_variables(rank: int, world: int) -> None:
    """Set the variables that torchrun sets. Trainers read them; nothing connects to the port, as there is a group."""
    os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world))
    os.environ.update(GROUP_RANK="0", MASTER_ADDR="127.0.0.1", MASTER_PORT="29500", OMP_NUM_THREADS="1")
    # Fabric looks for it to see that the processes have been started.
    os.environ.update(TORCHELASTIC_RUN_ID="none")
