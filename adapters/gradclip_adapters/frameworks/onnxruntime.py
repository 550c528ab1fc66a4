"""Adapt ONNX Runtime training: the operator `InplaceClipGradNorm`, and on-device training with `ClipGradNorm`."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Mapping, Sequence

import numpy as np
import onnxruntime
from onnx import ModelProto, TensorProto, helper, numpy_helper
from onnxruntime.training import api, artifacts
from onnxruntime.training.onnxblock.optim import SGD, ClipGradNorm

from ..contract import About, Call, EntryPoint, Reply, Unsupported
from .answering import CALLS, ArrayListAdapter, apply_to_all, rename

OPERATOR = "com.microsoft.InplaceClipGradNorm"
#: ONNX's numbers of the dtypes that the operator's schema lists.
TYPES = {"float16": TensorProto.FLOAT16, "float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE}
FEATURES = (*CALLS, "strided", "reversed")
#: ONNX Runtime 1.16 refuses models of a later version of the format.
FORMAT = 8


class ONNXRuntimeAdapter(ArrayListAdapter):
    """Adapter for the clips of ONNX Runtime training on the CPU."""

    def __init__(self) -> None:
        super().__init__(
            About("ONNX Runtime", onnxruntime.__version__, {"device": onnxruntime.get_device()}),
            [
                EntryPoint(
                    OPERATOR,
                    "clip_by_global_norm",
                    tuple(TYPES),
                    (*FEATURES, "in_place", "repeated", "threads"),
                    clip=_run_operator,
                ),
                EntryPoint(
                    "onnxruntime.training.onnxblock.optim.ClipGradNorm [SGD]",
                    "clip_by_global_norm",
                    ("float32",),
                    (*FEATURES, "optimizer", "learning_rate"),
                    clip=apply_to_all(_train),
                ),
            ],
        )

    def call(self, call: Call) -> Reply:
        if call.subject != OPERATOR and not call.gradients:
            message = "a model without parameters has no loss to train"
            raise Unsupported(message, "interface")
        if call.subject != OPERATOR and any(gradient.same_as is not None for gradient in call.gradients):
            message = "a model of ONNX has no two parameters of the same name"
            raise Unsupported(message, "interface")
        return super().call(call)


def _make_model(nodes: Sequence[Any], inputs: Sequence[Any], output: Any, parameters: Sequence[Any] = ()) -> ModelProto:
    opsets = [helper.make_opsetid("", 15), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph(nodes, "graph", inputs, [output], parameters)
    return helper.make_model(graph, opset_imports=opsets, ir_version=FORMAT)


def _run_operator(gradients: Sequence[Any], options: Mapping[str, Any]) -> tuple[Any, None]:
    """Run a model of one node on a sequence of gradients."""
    attributes = rename(options, clip_norm="max_norm")
    node = helper.make_node("InplaceClipGradNorm", ["gradients"], ["clipped"], domain="com.microsoft", **attributes)
    dtype = TYPES[gradients[0].dtype.name] if gradients else TensorProto.FLOAT
    given, output = (helper.make_tensor_sequence_value_info(name, dtype, None) for name in ("gradients", "clipped"))
    model = _make_model([node], [given], output)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (clipped,) = session.run(None, {"gradients": gradients})
    return clipped, None


def _make_loss(gradients: Sequence[Any]) -> ModelProto:
    """Return a model whose loss is the sum of all parameters times the inputs. So the gradients are the inputs."""
    nodes, inputs, parameters, total = [], [], [], ""
    for index, gradient in enumerate(gradients):
        parameter, given, product, part = (f"{name}{index}" for name in ("parameter", "input", "product", "part"))
        parameters.append(numpy_helper.from_array(np.zeros(gradient.shape, gradient.dtype), parameter))
        inputs.append(helper.make_tensor_value_info(given, TYPES[gradient.dtype.name], gradient.shape))
        nodes.append(helper.make_node("Mul", [parameter, given], [product]))
        nodes.append(helper.make_node("ReduceSum", [product], [part], keepdims=0))
        if total:
            nodes.append(helper.make_node("Add", [total, part], [f"total{index}"]))
            part = f"total{index}"
        total = part
    return _make_model(nodes, inputs, helper.make_tensor_value_info(total, TensorProto.FLOAT, []), parameters)


def _load(folder: Path) -> tuple[Any, Any, Any]:
    """Return the checkpoint, the module and the optimizer of the artifacts in a folder."""
    state = api.CheckpointState.load_checkpoint(str(folder / "checkpoint"))
    module = api.Module(str(folder / "training_model.onnx"), state, str(folder / "eval_model.onnx"))
    return state, module, api.Optimizer(str(folder / "optimizer_model.onnx"), module)


def _train(
    gradients: Sequence[Any], *, clip_norm: Any, learning_rate: float = 1.0, **more: Any
) -> tuple[list[Any], None]:
    """Generate the artifacts of a model, train it for a step from zero, and return the negated parameters."""
    model = _make_loss(gradients)
    names = [parameter.name for parameter in model.graph.initializer]
    optimizer = SGD(clip_grad=ClipGradNorm(clip_norm, **more))
    with tempfile.TemporaryDirectory() as folder:
        artifacts.generate_artifacts(model, names, optimizer=optimizer, artifact_directory=folder)
        try:
            state, module, optimizer = _load(Path(folder))
        except RuntimeError as error:
            # The text holds the folder, which differs from run to run.
            raise type(error)(str(error).replace(folder, "")) from None
    optimizer.set_learning_rate(learning_rate)
    module.train()
    module(*gradients)
    optimizer.step()
    values = (state.parameters[name].data for name in names)
    # Without a dtype, NumPy 1 makes a parameter without axes float64.
    return [np.asarray(np.subtract(0, value, dtype=value.dtype)) for value in values], None
