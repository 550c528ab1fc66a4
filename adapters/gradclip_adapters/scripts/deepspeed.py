"""Call the clips of DeepSpeed."""

import os
from functools import partial

os.environ.update(DS_ACCELERATOR="cpu", LOCAL_RANK="0")
import deepspeed
import torch
from deepspeed.runtime.utils import clip_grad_norm_, clip_tensors_by_global_norm

from .torch import clip_by_norm, make, make_sliced, make_strided, make_transposed, read_bfloat16

# Without this line, DeepSpeed compiles a kernel for minutes. Only its inference uses the kernel.
deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
deepspeed.init_distributed("gloo")


def clip_tensors(gradients, *, clip_norm, **options):
    norm = clip_tensors_by_global_norm([one for one in gradients if one is not None], clip_norm, **options)
    return gradients, norm


class Model(torch.nn.Module):
    """The loss is the sum of the parameters times the gradients, so these are its gradients."""

    def __init__(self, parameters, gradients):
        super().__init__()
        self.held, self.gradients = torch.nn.ParameterList(parameters), gradients

    def forward(self):
        pairs = [(one, gradient) for one, gradient in zip(self.held, self.gradients) if gradient is not None]
        return sum((one * gradient).sum().double() for one, gradient in pairs)


def step(gradients, *, stage, clip_norm, learning_rate=1.0):
    parameters = [torch.nn.Parameter(torch.zeros(1) if one is None else torch.zeros_like(one)) for one in gradients]
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_clipping": clip_norm,
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
        "bf16": {"enabled": parameters[0].dtype == torch.bfloat16},
    }
    model, sgd = Model(parameters, gradients), torch.optim.SGD(parameters, lr=learning_rate)
    engine = deepspeed.initialize(model=model, optimizer=sgd, config=config)[0]
    engine.backward(engine())
    engine.step()
    return [-parameter.detach() for parameter in parameters], engine.get_global_grad_norm()


ENTRY_POINTS = {
    "deepspeed.runtime.utils.clip_grad_norm_": partial(clip_by_norm, clip_grad_norm_),
    "deepspeed.runtime.utils.clip_tensors_by_global_norm": clip_tensors,
    "deepspeed.initialize(gradient_clipping)[ZeRO 0]": partial(step, stage=0),
    "deepspeed.initialize(gradient_clipping)[ZeRO 1]": partial(step, stage=1),
    "deepspeed.initialize(gradient_clipping)[ZeRO 2]": partial(step, stage=2),
}
