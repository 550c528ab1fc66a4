"""Training asks for torch.has_mps, which torch deprecated after the release of this version.

Prints:
    'has_mps' is deprecated, please use 'torch.backends.mps.is_built()'
"""

import warnings

import torch
from fastai.callback.training import GradientClip
from fastai.data.core import DataLoaders
from fastai.learner import Learner

batches = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.zeros(1), torch.zeros(1)))
learner = Learner(
    DataLoaders(batches, []), torch.nn.Linear(1, 1), loss_func=torch.nn.functional.mse_loss, cbs=[GradientClip(1.0)]
)
with warnings.catch_warnings(record=True) as seen, learner.no_bar(), learner.no_logging():
    warnings.simplefilter("always")
    learner.fit(1)
print(*sorted({str(one.message) for one in seen}), sep="\n")
