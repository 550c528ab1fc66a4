"""Adapt the clip of Paddle's fleet over gloo in two processes, which share one way of parallelism.

`fleet.distributed_optimizer` puts a clip of its own in place of the optimizer's `ClipGradByGlobalNorm`, unless the
processes only have other data. The marks of parameters are those of Paddle's own layers: `is_distributed` for one that
tensor parallelism splits, `is_firstly_shared` for the first of the copies that stages of a pipeline share.
"""

from __future__ import annotations

import os
import socket
import time
from pathlib import Path
from typing import Any, Mapping

import paddle

from ..arrays import refuse_unlisted
from ..contract import Call, EntryPoint, Gradient, Reply, Unsupported, framework_call
from ..mesh import cut_call, find_placement, find_sharded_axis, get_mesh
from ..processes import Answer, Ask, Join, find_team
from .paddle_optimizer import read_arrays

FEATURES = ("distributed", "excludes", "none_grads")

#: The number of processes. Four do not find together: see `STARTS`.
WORLD = 2

#: For each way of parallelism, the refusal of what it does not do to a parameter, by the kind of its placement.
REFUSED: Mapping[str, Mapping[str, str]] = {
    "mp": {},
    "dp": {"sharded": "each process has a copy of each gradient"},
    "pp": {"sharded": "a stage of a pipeline has whole parameters"},
    "sharding": {
        "sharded": "the first stage of sharding gives each process whole parameters",
        "replicated": "each parameter belongs to one process",
    },
}

#: How often processes are started. In one of four trials, two did not find together: gloo's `connectFullMesh` in Paddle
#: 3.3.1 ended with "Connection refused". Four processes, with two ways of parallelism, did so in one of five.
STARTS = 6


def answer_in_processes(call: Call, options: dict[str, Any]) -> Reply:
    """Return the answer of two processes."""
    del options
    entry = next(one for one in ENTRY_POINTS if one.name == call.subject)
    refuse_unlisted(call, entry, "interface")
    if get_mesh(call).size != WORLD:
        message = f"this adapter starts {WORLD} processes of Paddle"
        raise Unsupported(message)
    way = next(iter(entry.mesh or {"mp": WORLD}))
    for gradient in call.gradients:
        refusal = REFUSED[way].get(_name_kind(gradient, way))
        if gradient.array is not None and refusal:
            raise Unsupported(refusal, "interface")
    team = find_team(__name__, WORLD, way=way)
    for _ in range(STARTS - 1):
        try:
            team.start()
            break
        except RuntimeError:
            continue
    return team.call(call)


def _name_kind(gradient: Gradient, axis: str) -> str:
    if find_sharded_axis(gradient) is not None:
        return "sharded"
    return "replicated" if find_placement(gradient, axis) == "replicated" else "owned"


def _make_entry_point(way: str | None) -> EntryPoint:
    name = "paddle.distributed.fleet.distributed_optimizer(ClipGradByGlobalNorm)"
    return EntryPoint(
        name if way is None else f"{name}[{way}]",
        "clip_by_global_norm",
        ("float32", "float64"),
        # If the processes only have other data, the clip is that of one process.
        FEATURES if way == "dp" else (*FEATURES, "in_place"),
        # The code divides by the larger of norm and threshold, plus 1e-6. No documentation says so.
        formula=None if way == "dp" else {"kind": "max-denominator", "eps": 1e-6},
        mesh=None if way is None else {way: WORLD},
        clip=answer_in_processes,
    )


#: The first one is that of tensor parallelism.
ENTRY_POINTS = [_make_entry_point(way) for way in (None, "dp", "pp", "sharding")]


def load(way: str) -> Join:
    """Return the function that makes a process a member of the group."""

    def join(rank: int, world: int, folder: str, ask: Ask) -> Answer:
        del ask
        _join_group(rank, world, folder, way)
        return lambda call: _answer(call, rank, way)

    return join


def _join_group(rank: int, world: int, folder: str, way: str) -> None:
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
    strategy.hybrid_configs = {f"{each}_degree": world if each == way else 1 for each in REFUSED}
    fleet.init(is_collective=True, strategy=strategy)


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


def _answer(call: Call, rank: int, way: str) -> Reply:
    from paddle.distributed import fleet

    pairs = [
        (_make_parameter(gradient, rank, way), _make_gradient(gradient)) for gradient in cut_call(call, rank).gradients
    ]
    # In the first stage of sharding, the optimizer has the parameters of all processes.
    every = [_make_parameter(gradient, rank, way) for gradient in call.gradients]
    with framework_call() as seen:
        optimizer = paddle.optimizer.SGD(
            parameters=every, grad_clip=paddle.nn.ClipGradByGlobalNorm(call.options["clip_norm"])
        )
        clipped = fleet.distributed_optimizer(optimizer)._inner_opt._grad_clip(pairs)
    # The clip of one process leaves out parameters without gradients.
    results = {id(parameter): gradient for parameter, gradient in clipped}
    return Reply(
        read_arrays([results.get(id(parameter)) for parameter, _ in pairs]),
        inputs=read_arrays([gradient for _, gradient in pairs]),
        warnings=seen.warnings,
    )


def _make_gradient(gradient: Gradient) -> Any:
    return None if gradient.array is None else paddle.to_tensor(gradient.array.numpy())


def _make_parameter(gradient: Gradient, rank: int, way: str) -> Any:
    shape = [1] if gradient.array is None else list(gradient.array.shape)
    dtype = "float32" if gradient.array is None else gradient.array.dtype
    parameter = paddle.create_parameter(shape, dtype, attr=paddle.ParamAttr(need_clip=gradient.need_clip))
    parameter.is_distributed = way == "mp" and find_sharded_axis(gradient) is not None
    if way == "pp" and find_placement(gradient, way) == "replicated":
        parameter.is_firstly_shared = rank == 0
    return parameter
