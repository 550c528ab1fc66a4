"""Adapt Paddle's hybrid-parallel clip: tensor parallelism over gloo in several processes.

`fleet.distributed_optimizer` puts this clip in place of the optimizer's own `ClipGradByGlobalNorm`. A parameter that is
split has `is_distributed` set, as Paddle's own layers of tensor parallelism set it.
"""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Any

import paddle

from ..arrays import refuse_unlisted
from ..contract import Array, Call, EntryPoint, Reply, Unsupported, framework_call
from ..mesh import cut_call, find_sharded_axis, get_mesh
from ..processes import Answer, Team

__all__ = ["ENTRY_POINT", "join"]

FEATURES = ("distributed", "in_place", "excludes", "none_grads")

#: The processes that make each call. A group of four did not always find together on a busy machine.
TEAM = Team(__name__, 2)


def answer_in_processes(call: Call, _: dict[str, Any]) -> Reply:
    """Return the answer of two processes. They are kept for later calls.

    Raises
    ------
    Unsupported
        If the call asks for another number of processes.
    """
    refuse_unlisted(call, ENTRY_POINT, "interface")
    if get_mesh(call).size != TEAM.world:
        message = f"this adapter starts {TEAM.world} processes of Paddle"
        raise Unsupported(message)
    return TEAM.call(call)


ENTRY_POINT = EntryPoint(
    "paddle.distributed.fleet.distributed_optimizer(ClipGradByGlobalNorm)",
    "clip_by_global_norm",
    ("float32", "float64"),
    FEATURES,
    # The code divides by the larger of norm and threshold, plus 1e-6. No documentation says so.
    formula={"kind": "max-denominator", "eps": 1e-6},
    clip=answer_in_processes,
)


def join(rank: int, world: int, folder: str) -> Answer:
    """Join the group of processes, and return the function that answers its calls."""
    from paddle.distributed import fleet

    port = _agree_on_port(rank, Path(folder, "port"))
    hosts = [f"127.0.0.1:{port + other}" for other in range(world)]
    os.environ.update(
        PADDLE_TRAINER_ID=str(rank),
        PADDLE_TRAINERS_NUM=str(world),
        PADDLE_CURRENT_ENDPOINT=hosts[rank],
        PADDLE_TRAINER_ENDPOINTS=",".join(hosts),
        PADDLE_MASTER=hosts[0],
        PADDLE_DISTRI_BACKEND="gloo",
    )
    paddle.set_device("cpu")
    paddle.distributed.init_parallel_env()
    strategy = fleet.DistributedStrategy()
    strategy.hybrid_configs = {"dp_degree": 1, "mp_degree": world, "pp_degree": 1, "sharding_degree": 1}
    fleet.init(is_collective=True, strategy=strategy)
    return lambda call: _answer(cut_call(call, rank))


def _agree_on_port(rank: int, path: Path) -> int:
    """Return a free port, which the first process finds."""
    if rank == 0:
        with socket.socket() as found:
            found.bind(("127.0.0.1", 0))
            written = path.with_suffix(".new")
            written.write_text(str(found.getsockname()[1]), encoding="utf-8")
        # The others read the file as soon as it is there.
        written.rename(path)
    while not path.exists():
        time.sleep(0.01)
    return int(path.read_text(encoding="utf-8"))


def _answer(call: Call) -> Reply:
    from paddle.distributed import fleet

    pairs: list[Any] = []
    for gradient in call.gradients:
        shape = [1] if gradient.array is None else list(gradient.array.shape)
        dtype = "float32" if gradient.array is None else gradient.array.dtype
        parameter = paddle.create_parameter(shape, dtype, attr=paddle.ParamAttr(need_clip=gradient.need_clip))
        parameter.is_distributed = find_sharded_axis(gradient) is not None
        pairs.append((parameter, None if gradient.array is None else paddle.to_tensor(gradient.array.numpy())))
    with framework_call() as seen:
        optimizer = paddle.optimizer.SGD(
            parameters=[parameter for parameter, _ in pairs],
            grad_clip=paddle.nn.ClipGradByGlobalNorm(call.options["clip_norm"]),
        )
        clipped = fleet.distributed_optimizer(optimizer)._inner_opt._grad_clip(pairs)
    results, inputs = ([None if one is None else Array.of(one.numpy()) for _, one in each] for each in (clipped, pairs))
    return Reply(tuple(results), inputs=tuple(inputs), warnings=seen.warnings)
