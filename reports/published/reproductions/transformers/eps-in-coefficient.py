"""The norm is the threshold, but 1e-6 is added to it.

Prints:
    ['2.5e-06', '3.3e-06']
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


model = Model(torch.tensor([3e-6, 4e-6]))
arguments = transformers.TrainingArguments(
    tempfile.mkdtemp(),
    max_grad_norm=5e-6,
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
print([f"{number:.2g}" for number in (0 - model.weight).tolist()])
