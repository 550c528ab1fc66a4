"""A max_grad_norm of zero switches the clip off, and nothing says that the gradient has a NaN beside finite numbers.

Prints:
    [3.0, nan]
"""

import tempfile

import torch
import transformers


class Model(torch.nn.Module):
    def __init__(self, gradient):
        super().__init__()
        self.gradient, self.weight = gradient, torch.nn.Parameter(torch.zeros_like(gradient))

    def forward(self, x):
        del x
        return {"loss": (self.weight * self.gradient).sum()}


model = Model(torch.tensor([3.0, float("nan")]))
arguments = transformers.TrainingArguments(
    tempfile.mkdtemp(),
    max_grad_norm=0.0,
    max_steps=1,
    learning_rate=1.0,
    lr_scheduler_type="constant",
    optim="sgd",
    use_cpu=True,
    report_to="none",
    save_strategy="no",
    logging_strategy="no",
    disable_tqdm=True,
)
transformers.utils.logging.set_verbosity_error()
trainer = transformers.Trainer(model, arguments, train_dataset=[{"x": 0.0}])
trainer.remove_callback(transformers.PrinterCallback)
trainer.train()
print((0 - model.weight).tolist())
