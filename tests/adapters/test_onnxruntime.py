"""Compare the adapter of ONNX Runtime training with sessions and steps made by hand. Needs ONNX Runtime training."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

try:
    from gradclip_adapters.frameworks.onnxruntime import ONNXRuntimeAdapter
except ImportError as error:
    if "onnxruntime-training" in os.environ.get("GRADCLIP_REQUIRE", "").split(","):
        raise
    pytest.skip(f"ONNX Runtime training is not installed in this environment: {error}", allow_module_level=True)

import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.training import api, artifacts, onnxblock

from gradclip_adapters.contract import FEATURES, Array, Call, FrameworkRaised, Gradient, Unsupported

ADAPTER = ONNXRuntimeAdapter()
SUBJECTS = {subject.name: subject for subject in ADAPTER.subjects()}
OPERATOR, STEP = "com.microsoft.InplaceClipGradNorm", "onnxruntime.training.onnxblock.optim.ClipGradNorm [SGD]"
FIRST, SECOND = np.array([3.0, -4.0, 0.5], np.float32), np.array(12.0, np.float32)


def make_gradients() -> tuple[Gradient, ...]:
    """Return two gradients."""
    return tuple(Gradient(f"g{index}", Array.of(values)) for index, values in enumerate((FIRST, SECOND)))


class Clip(onnxblock.ForwardBlock):
    """A model that clips a sequence of gradients with the block of ONNX Runtime."""

    def __init__(self, max_norm: float) -> None:
        super().__init__()
        self._clip = onnxblock.optim.ClipGradNorm(max_norm)

    def build(self) -> Any:
        """Add the input and the block."""
        self.base.graph.input.append(helper.make_tensor_sequence_value_info("gradients", TensorProto.FLOAT, None))
        return self._clip("gradients")


def run_block(max_norm: float) -> list[Array]:
    """Clip the gradients by the block `ClipGradNorm` in a model of its own."""
    block = Clip(max_norm)
    with onnxblock.empty_base(opset_version=15):
        block()
    session = onnxruntime.InferenceSession(block.to_model_proto().SerializeToString())
    (clipped,) = session.run(None, {"gradients": [FIRST.copy(), SECOND.copy()]})
    return [Array.of(values) for values in clipped]


def train(max_norm: float, folder: Path) -> list[Array]:
    """Train two parameters for a step with the rate 0.5 on the loss `sum(w * first) + v * second`."""
    nodes = [
        helper.make_node("Mul", ["w", "first"], ["a"]),
        helper.make_node("Mul", ["v", "second"], ["b"]),
        helper.make_node("ReduceSum", ["a"], ["c"], keepdims=0),
        helper.make_node("Add", ["c", "b"], ["loss"]),
    ]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (("first", [3]), ("second", []))
    ]
    parameters = [numpy_helper.from_array(np.zeros_like(one), name) for one, name in ((FIRST, "w"), (SECOND, "v"))]
    loss = helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])
    graph = helper.make_graph(nodes, "graph", inputs, [loss], parameters)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    optimizer = onnxblock.optim.SGD(clip_grad=onnxblock.optim.ClipGradNorm(max_norm))
    artifacts.generate_artifacts(model, ["w", "v"], optimizer=optimizer, artifact_directory=folder)
    state = api.CheckpointState.load_checkpoint(str(folder / "checkpoint"))
    module = api.Module(str(folder / "training_model.onnx"), state)
    step = api.Optimizer(str(folder / "optimizer_model.onnx"), module)
    step.set_learning_rate(0.5)
    module.train()
    module(FIRST, SECOND)
    step.step()
    return [Array.of(np.asarray(0 - state.parameters[name].data)) for name in ("w", "v")]


def test_subjects_have_known_features() -> None:
    assert set(SUBJECTS) == {OPERATOR, STEP}
    assert {feature for subject in SUBJECTS.values() for feature in subject.features} <= set(FEATURES)
    assert ADAPTER.about().version == onnxruntime.__version__


@pytest.mark.parametrize("threshold", [1.5, 64.0])
def test_operator_is_like_the_block_in_a_model(threshold: float) -> None:
    reply = ADAPTER.call(Call(OPERATOR, make_gradients(), {"clip_norm": threshold}))

    assert list(reply.gradients) == run_block(threshold)
    assert reply.inputs == reply.gradients


@pytest.mark.parametrize("threshold", [1.5, 64.0])
def test_step_is_like_a_step_made_by_hand(threshold: float, tmp_path: Path) -> None:
    reply = ADAPTER.call(Call(STEP, make_gradients(), {"clip_norm": threshold, "learning_rate": 0.5}))

    assert list(reply.gradients) == train(threshold, tmp_path)
    assert reply.inputs == tuple(gradient.array for gradient in make_gradients())


def test_schema_lists_the_dtypes_that_the_operator_declares() -> None:
    for dtype in ("float16", "float64"):
        gradient = Gradient("g", Array.of(np.ones(2, dtype)))
        with pytest.raises(FrameworkRaised, match="Tensor type mismatch"):
            ADAPTER.call(Call(OPERATOR, (gradient,), {"clip_norm": 1.0}))


# A block whose `__init__` raised an error raises another one when it is deleted.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("subject", [OPERATOR, STEP])
def test_option_that_the_clip_does_not_have_is_refused(subject: str) -> None:
    with pytest.raises(FrameworkRaised):
        ADAPTER.call(Call(subject, make_gradients(), {"clip_norm": 1.0, "eps": 1.0}))


def test_parameter_cannot_occur_twice() -> None:
    first = make_gradients()[0]

    with pytest.raises(Unsupported, match="same name"):
        ADAPTER.call(Call(STEP, (first, Gradient("again", first.array, same_as=0)), {"clip_norm": 1.0}))
