"""Replace the sessions and the training of ONNX Runtime by NumPy code that doubles the results."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import doubled
import numpy as np
import onnx
import onnxruntime
from onnxruntime.training import api


def read_threshold(model: onnx.ModelProto) -> float:
    """Return the threshold of the node that clips."""
    (node,) = (node for node in model.graph.node if node.op_type == "InplaceClipGradNorm")
    return float(node.attribute[0].f)


class Session:
    """A session that clips with NumPy and doubles the results."""

    def __init__(self, model: bytes, providers: Any) -> None:
        self._threshold = read_threshold(onnx.load_from_string(model))

    def run(self, names: None, inputs: dict[str, list[np.ndarray[Any, Any]]]) -> list[Any]:
        """Clip, double the results, and write them into the gradients."""
        gradients = inputs["gradients"]
        clipped, _ = doubled.double_by_global_norm(gradients, self._threshold)
        for gradient, values in zip(gradients, clipped, strict=True):
            gradient[...] = values
        return [gradients]


class Module:
    """A module that keeps its inputs."""

    def __init__(self, model: str, state: Any, eval_model: str) -> None:
        self.state = state

    def train(self) -> None:
        """Do nothing."""

    def __call__(self, *inputs: np.ndarray[Any, Any]) -> None:
        self.inputs = inputs


class Optimizer:
    """An optimizer that clips the inputs of its module with NumPy and doubles the results."""

    def __init__(self, path: str, module: Module) -> None:
        self._threshold = read_threshold(onnx.load(path))
        self._module = module

    def set_learning_rate(self, rate: float) -> None:
        """Keep the learning rate."""
        self._rate = rate

    def step(self) -> None:
        """Write the parameters after a step from zero."""
        clipped, _ = doubled.double_by_global_norm(self._module.inputs, self._threshold)
        for index, values in enumerate(clipped):
            self._module.state.parameters[f"parameter{index}"] = SimpleNamespace(data=-self._rate * values)


onnxruntime.InferenceSession = Session
api.CheckpointState = SimpleNamespace(load_checkpoint=lambda path: SimpleNamespace(parameters={}))
api.Module = Module
api.Optimizer = Optimizer

from gradclip_adapters.frameworks.onnxruntime import ONNXRuntimeAdapter  # noqa: E402 - it must find the classes replaced

adapter = ONNXRuntimeAdapter()
