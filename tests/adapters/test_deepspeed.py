"""Compare the adapter of DeepSpeed with training steps of its engine, in one process and in two."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from frameworks import has_library, is_required

from gradclip_adapters.contract import Array, Call, FrameworkRaised, Gradient, Unsupported

if not has_library("deepspeed") and not is_required("deepspeed"):
    pytest.skip("DeepSpeed is not installed", allow_module_level=True)

import torch

from gradclip_adapters.frameworks.torch_based.deepspeed import DeepSpeedAdapter
from gradclip_adapters.frameworks.torch_based.parameters import read_array

import deepspeed  # isort: skip - the adapter sets the variables that DeepSpeed reads

INPUT = [[3.0, -4.0, 0.5]]
STAGES = (0, 1, 2)


@pytest.fixture(scope="module")
def adapter() -> DeepSpeedAdapter:
    """Return the adapter, which joins a group of one process."""
    return DeepSpeedAdapter()


def name_step(stage: int, suffix: str = "") -> str:
    """Return the name of an entry point."""
    return f"deepspeed.initialize(gradient_clipping)[ZeRO {stage}{suffix}]"


def train(stage: int, clip_norm: float, dtype: Any) -> tuple[list[torch.Tensor], list[torch.Tensor], Any]:
    """Take a step of a linear layer from zero. Return the gradients, the negated parameters and the norm."""
    layer = torch.nn.Linear(3, 2).to(dtype)
    for parameter in layer.parameters():
        torch.nn.init.zeros_(parameter)
    config = {
        "train_micro_batch_size_per_gpu": 1,
        "gradient_clipping": clip_norm,
        "zero_optimization": {"stage": stage},
        "zero_allow_untested_optimizer": True,
        "bf16": {"enabled": dtype == torch.bfloat16},
    }
    sgd = torch.optim.SGD(layer.parameters(), lr=1.0)
    examples = torch.tensor(INPUT, dtype=dtype)
    given = torch.autograd.grad((layer(examples) - 1).square().sum(), list(layer.parameters()))
    with warnings.catch_warnings():
        # DeepSpeed uses parts of torch that are deprecated.
        warnings.simplefilter("ignore")
        engine = deepspeed.initialize(model=layer, optimizer=sgd, config=config)[0]
        engine.backward((engine(examples) - 1).square().sum())
        engine.step()
    return list(given), [0 - parameter.detach() for parameter in layer.parameters()], engine.get_global_grad_norm()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("clip_norm", [1.5, 64.0])
def test_adapter_answers_like_a_training_step(
    adapter: DeepSpeedAdapter, stage: int, clip_norm: float, dtype: Any
) -> None:
    given, stepped, norm = train(stage, clip_norm, dtype)
    gradients = tuple(Gradient(f"g{number}", read_array(one)) for number, one in enumerate(given))

    reply = adapter.call(Call(name_step(stage), gradients, {"clip_norm": clip_norm}))

    assert list(reply.gradients) == list(map(read_array, stepped))
    assert all(map(torch.equal, given, stepped)) == (clip_norm == 64.0)
    assert (reply.norm is None) == (norm is None) == (stage == 0 and dtype == torch.float32)
    assert reply.norm is None or reply.norm.numpy() == float(norm)


@pytest.mark.parametrize("stage", [*STAGES, 3])
def test_two_processes_clip_the_average_of_their_gradients(adapter: DeepSpeedAdapter, stage: int) -> None:
    gradients = (
        Gradient("split", Array.of(np.array([3.0, 0.0, 0.0], "float32")), placements={"ranks": 0}),
        Gradient("none", None),
        Gradient("copied", Array.of(np.array([[4.0, 12.0]], "float32"))),
    )

    reply = adapter.call(Call(name_step(stage, ", distributed"), gradients, {"clip_norm": 1.3, "mesh": "ranks=2"}))

    split, none, copied = (None if one is None else one.numpy() for one in reply.gradients)
    assert split == pytest.approx([0.3, 0.0, 0.0], rel=1e-6)
    assert none is None
    assert copied[0] == pytest.approx([0.4, 1.2], rel=1e-6)
    assert reply.apart == ()
    assert reply.norm is None if stage == 0 else reply.norm.numpy() == 13.0


EXPERTS = (
    Gradient("dense", Array.of(np.array([2.0, -3.0], "float32"))),
    Gradient("first", Array.of(np.array([4.0, 0.0], "float32")), placements={"expert": "owned by 0"}),
    Gradient("second", Array.of(np.array([10.0, 0.0], "float32")), placements={"expert": "owned by 1"}),
)


@pytest.mark.parametrize("stage", [1, 2])
def test_experts_of_all_ranks_count(adapter: DeepSpeedAdapter, stage: int) -> None:
    options = {"clip_norm": 1.0, "mesh": "replica=2,expert=2"}

    reply = adapter.call(Call(name_step(stage, ", experts"), EXPERTS, options))

    norm = np.sqrt(129)
    for one, gradient in zip(reply.gradients, EXPERTS, strict=True):
        assert one.numpy() == pytest.approx(gradient.array.numpy() / norm, rel=1e-6)
    assert reply.norm.numpy() == pytest.approx(norm, rel=1e-6)
    assert reply.apart == ()


def test_steps_below_the_threshold_give_each_rank_its_own_expert(adapter: DeepSpeedAdapter) -> None:
    reply = adapter.call(Call(name_step(0, ", experts"), EXPERTS, {"clip_norm": 16.0, "mesh": "replica=2,expert=2"}))

    assert [one.numpy().tolist() for one in reply.gradients] == [[2.0, -3.0], [4.0, 0.0], [10.0, 0.0]]


def test_ranks_with_other_numbers_of_experts_are_refused(adapter: DeepSpeedAdapter) -> None:
    options = {"clip_norm": 1.0, "mesh": "replica=2,expert=2"}

    with pytest.raises(Unsupported, match="as many experts"):
        adapter.call(Call(name_step(1, ", experts"), EXPERTS[:2], options))


def test_functions_take_the_options_of_their_signatures(adapter: DeepSpeedAdapter) -> None:
    gradients = (Gradient("g", Array.of(np.array([3.0, -4.0], "float32"))),)
    by_norm, by_tensors = (
        f"deepspeed.runtime.utils.{name}" for name in ("clip_grad_norm_", "clip_tensors_by_global_norm")
    )

    first = adapter.call(Call(by_norm, gradients, {"clip_norm": 3.5, "norm_type": 1.0}))
    second = adapter.call(Call(by_tensors, gradients, {"clip_norm": 1.0, "eps": 5.0}))

    assert first.gradients[0].numpy() == pytest.approx([1.5, -2.0], rel=1e-6)
    assert first.norm.numpy() == 7.0
    assert second.gradients[0].numpy() == pytest.approx([0.3, -0.4], rel=1e-6)


def test_engine_refuses_what_its_configuration_does_not_have(adapter: DeepSpeedAdapter) -> None:
    gradients = (Gradient("g", Array.of(np.array([3.0, -4.0], "float32"))),)

    with pytest.raises(FrameworkRaised, match="unexpected keyword argument 'norm_type'"):
        adapter.call(Call(name_step(1), gradients, {"clip_norm": 1.0, "norm_type": 1.0}))
    with pytest.raises(Unsupported):
        adapter.call(Call(name_step(1), (), {"clip_norm": 1.0}))
    with pytest.raises(Unsupported, match="does not say in which mesh"):
        adapter.call(Call(name_step(1, ", distributed"), gradients, {"clip_norm": 1.0}))
