"""Call the clips of ONNX Runtime training."""

import tempfile

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.training import api, artifacts
from onnxruntime.training.onnxblock.optim import SGD, ClipGradNorm

from .function import make, make_reversed, make_sliced, make_strided, make_transposed


def clip_in_place(gradients, *, clip_norm, **options):
    existing = [gradient for gradient in gradients if gradient is not None]
    types = {"float16": TensorProto.FLOAT16, "float32": TensorProto.FLOAT, "float64": TensorProto.DOUBLE}
    dtype = types[existing[0].dtype.name] if existing else TensorProto.FLOAT
    inputs, outputs = ([helper.make_tensor_sequence_value_info(name, dtype, None)] for name in ("g", "clipped"))
    settings = {"domain": "com.microsoft", "max_norm": clip_norm, **options}
    node = helper.make_node("InplaceClipGradNorm", ["g"], ["clipped"], **settings)
    opsets = [helper.make_opsetid("", 15), helper.make_opsetid("com.microsoft", 1)]
    graph = helper.make_graph([node], "graph", inputs, outputs)
    model = helper.make_model(graph, opset_imports=opsets, ir_version=8)
    session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    return session.run(None, {"g": existing})[0], None


def step(gradients, *, clip_norm, learning_rate=1.0, **options):
    # The loss is the sum of all parameters times the inputs, so the gradients are the inputs.
    nodes, inputs, parameters, total = [], [], [], ""
    for i, gradient in enumerate(gradients):
        parameters.append(numpy_helper.from_array(np.zeros_like(gradient), f"p{i}"))
        inputs.append(helper.make_tensor_value_info(f"g{i}", TensorProto.FLOAT, gradient.shape))
        nodes.append(helper.make_node("Mul", [f"p{i}", f"g{i}"], [f"product{i}"]))
        nodes.append(helper.make_node("ReduceSum", [f"product{i}"], [f"part{i}"], keepdims=0))
        nodes += [helper.make_node("Add", [total, f"part{i}"], [f"total{i}"])] if total else []
        total = f"total{i}" if total else f"part{i}"
    loss = helper.make_tensor_value_info(total, TensorProto.FLOAT, [])
    graph = helper.make_graph(nodes, "graph", inputs, [loss], parameters)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
    names = [parameter.name for parameter in parameters]
    block = SGD(clip_grad=ClipGradNorm(clip_norm, **options))
    with tempfile.TemporaryDirectory() as folder:
        artifacts.generate_artifacts(model, names, optimizer=block, artifact_directory=folder)
        state = api.CheckpointState.load_checkpoint(f"{folder}/checkpoint")
        module = api.Module(f"{folder}/training_model.onnx", state, f"{folder}/eval_model.onnx")
        optimizer = api.Optimizer(f"{folder}/optimizer_model.onnx", module)
    optimizer.set_learning_rate(learning_rate)
    module.train()
    module(*gradients)
    optimizer.step()
    return [-state.parameters[name].data for name in names], None


ENTRY_POINTS = {
    "com.microsoft.InplaceClipGradNorm": clip_in_place,
    "onnxruntime.training.onnxblock.optim.ClipGradNorm [SGD]": step,
}
