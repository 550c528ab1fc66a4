"""A gradient_clipping of zero switches the clip off, as a comment in the source says.

Prints:
    [3.0, -4.0]
"""

import os

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_RANK="0")
import deepspeed
import torch

deepspeed.utils.logger.setLevel("ERROR")
# Without this line, DeepSpeed compiles a kernel for minutes. Only its inference uses the kernel.
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
deepspeed.init_distributed("gloo")


class Model(torch.nn.Module):
    def __init__(self, gradient):
        super().__init__()
        self.gradient, self.weight = gradient, torch.nn.Parameter(torch.zeros_like(gradient))

    def forward(self):
        return (self.weight * self.gradient).sum()


model = Model(torch.tensor([3.0, -4.0]))
config = {
    "train_micro_batch_size_per_gpu": 1,
    "gradient_clipping": 0.0,
    "zero_optimization": {"stage": 1},
    "zero_allow_untested_optimizer": True,
}
sgd = torch.optim.SGD(model.parameters(), lr=1.0)
engine = deepspeed.initialize(model=model, optimizer=sgd, config=config)[0]
engine.backward(engine())
engine.step()
print((0 - model.weight.detach()).tolist())
