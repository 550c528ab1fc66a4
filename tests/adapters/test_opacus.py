"""Compare the adapter of Opacus with a training step in which Opacus computes the gradients of the examples."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from frameworks import has_library, is_required

from gradclip_adapters.contract import Call, Gradient

if not has_library("opacus") and not is_required("opacus"):
    pytest.skip("Opacus is not installed", allow_module_level=True)

import torch

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    from opacus import GradSampleModule
    from opacus.optimizers import DPOptimizer

from gradclip_adapters.frameworks.torch_based.opacus import OpacusAdapter
from gradclip_adapters.frameworks.torch_based.parameters import read_array

ENTRY_POINT = "opacus.optimizers.DPOptimizer"
PER_LAYER = "opacus.optimizers.DPPerLayerOptimizer"
INPUTS = [[3.0, -4.0], [0.5, 0.25], [1.0, 2.0]]


def train(clip_norm: float, dtype: Any) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Take a step of a linear layer. Return the gradients of the examples, and what the optimizer makes of them."""
    module = GradSampleModule(torch.nn.Linear(2, 2).to(dtype), loss_reduction="sum")
    sgd = torch.optim.SGD(module.parameters(), lr=1.0)
    optimizer = DPOptimizer(
        sgd, noise_multiplier=0.0, max_grad_norm=clip_norm, expected_batch_size=None, loss_reduction="sum"
    )
    with warnings.catch_warnings():
        # torch warns of the hooks of Opacus.
        warnings.simplefilter("ignore")
        module(torch.tensor(INPUTS, dtype=dtype)).square().sum().backward()
    examples = [parameter.grad_sample.clone() for parameter in module.parameters()]
    optimizer.step()
    return examples, [parameter.grad for parameter in module.parameters()]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("clip_norm", [0.5, 1e6])
def test_adapter_answers_like_a_training_step(dtype: Any, clip_norm: float) -> None:
    examples, clipped = train(clip_norm, dtype)
    gradients = tuple(Gradient(f"g{number}", read_array(one)) for number, one in enumerate(examples))

    reply = OpacusAdapter().call(Call(ENTRY_POINT, gradients, {"clip_norm": clip_norm}))

    assert list(reply.gradients) == list(map(read_array, clipped))
    assert list(reply.inputs or ()) == [gradient.array for gradient in gradients]
    assert torch.equal(clipped[0], examples[0].sum(0)) == (clip_norm > 1)


@pytest.mark.parametrize("others", [(), ([[3.0, -4.0]],)])
def test_layer_without_elements_needs_no_share(others: tuple[Any, ...]) -> None:
    examples = [torch.zeros(1, 0), torch.zeros(1, 0), *map(torch.tensor, others)]
    gradients = tuple(Gradient(f"g{number}", read_array(one)) for number, one in enumerate(examples))

    reply = OpacusAdapter().call(Call(PER_LAYER, gradients, {"clip_norm": 2.0, "layers": "by size"}))

    assert [None if one is None else one.shape for one in reply.gradients] == [(0,), (0,), *((2,) for _ in others)]
    for got in reply.gradients[2:]:
        assert got is not None
        torch.testing.assert_close(torch.from_numpy(got.numpy()), torch.tensor([1.2, -1.6]))
