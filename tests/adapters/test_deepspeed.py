"""Test the norms and the experts of DeepSpeed's engine in several processes, and what the adapter refuses."""

from __future__ import annotations

import numpy as np
import pytest
from frameworks import has_library, is_required

from gradclip_adapters.contract import Array, Call, Gradient, Unsupported

if not has_library("deepspeed") and not is_required("deepspeed"):
    pytest.skip("DeepSpeed is not installed", allow_module_level=True)

from gradclip_adapters.frameworks.torch_based.deepspeed import DeepSpeedAdapter


@pytest.fixture(scope="module")
def adapter() -> DeepSpeedAdapter:
    """Return the adapter, which joins a group of one process."""
    return DeepSpeedAdapter()


def name_step(stage: int, suffix: str = "") -> str:
    return f"deepspeed.initialize(gradient_clipping)[ZeRO {stage}{suffix}]"


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
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
