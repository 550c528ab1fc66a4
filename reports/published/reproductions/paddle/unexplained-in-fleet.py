"""The hybrid-parallel clip of two processes does not count gradients in float64, so it does not clip them.

Both processes have the whole gradient, whose norm is 5.

Prints:
    [3.0, 4.0]
"""

import os

import paddle
from paddle.distributed import fleet

rank, hosts = int(os.fork() == 0), ["127.0.0.1:36793", "127.0.0.1:36794"]
names = {"TRAINER_ID": str(rank), "TRAINERS_NUM": "2", "MASTER": hosts[0], "TRAINER_ENDPOINTS": ",".join(hosts)}
os.environ.update({f"PADDLE_{name}": value for name, value in names.items()}, PADDLE_CURRENT_ENDPOINT=hosts[rank])
os.environ["PADDLE_DISTRI_BACKEND"] = "gloo"
strategy = fleet.DistributedStrategy()
strategy.hybrid_configs = {"dp_degree": 1, "mp_degree": 2, "pp_degree": 1, "sharding_degree": 1}
fleet.init(is_collective=True, strategy=strategy)
parameter = paddle.create_parameter([2], "float64")
sgd = paddle.optimizer.SGD(parameters=[parameter], grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0))
clip = fleet.distributed_optimizer(sgd)._inner_opt._grad_clip
result = clip([(parameter, paddle.to_tensor([3.0, 4.0], "float64"))])[0][1]
if rank == 0:
    print([float(f"{number:.4g}") for number in result.tolist()])
