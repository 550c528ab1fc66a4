"""Call the clip of Transformers."""

import tempfile

import torch
import transformers

from .torch import make, read_bfloat16


class Model(torch.nn.Module):
    """The loss is the sum of the parameters times the gradients, so these are its gradients."""

    def __init__(self, parameters, gradients):
        super().__init__()
        self.held, self.gradients = torch.nn.ParameterList(parameters), gradients

    def forward(self, x):
        pairs = [(one, gradient) for one, gradient in zip(self.held, self.gradients) if gradient is not None]
        return {"loss": sum((one * gradient).sum().double() for one, gradient in pairs)}


def step(gradients, *, clip_norm, learning_rate=1.0):
    parameters = [torch.nn.Parameter(torch.zeros(1) if one is None else torch.zeros_like(one)) for one in gradients]
    options = {"optim": "sgd", "learning_rate": learning_rate, "lr_scheduler_type": "constant", "use_cpu": True}
    quiet = {"disable_tqdm": True, "report_to": "none", "save_strategy": "no", "logging_strategy": "no"}
    arguments = transformers.TrainingArguments(
        tempfile.mkdtemp(), max_grad_norm=clip_norm, max_steps=1, **options, **quiet
    )
    transformers.Trainer(Model(parameters, gradients), arguments, train_dataset=[{"x": 0.0}]).train()
    return [-parameter.detach() for parameter in parameters], None


ENTRY_POINTS = {"transformers.Trainer(max_grad_norm)": step}
