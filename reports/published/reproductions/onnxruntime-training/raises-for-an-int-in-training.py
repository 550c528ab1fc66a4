"""ClipGradNorm(2) makes an optimizer model that cannot be loaded, because 2 is an int.

Prints:
    Mismatched attribute type
"""

import tempfile

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.training import api, artifacts
from onnxruntime.training.onnxblock.optim import SGD, ClipGradNorm

parameter = numpy_helper.from_array(np.zeros(2, np.float32), "w")
inputs = [helper.make_tensor_value_info("g", TensorProto.FLOAT, [2])]
loss = helper.make_tensor_value_info("loss", TensorProto.FLOAT, [])
nodes = [helper.make_node("Mul", ["w", "g"], ["wg"]), helper.make_node("ReduceSum", ["wg"], ["loss"], keepdims=0)]
graph = helper.make_graph(nodes, "graph", inputs, [loss], [parameter])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 15)], ir_version=8)
with tempfile.TemporaryDirectory() as folder:
    block = SGD(clip_grad=ClipGradNorm(2))
    artifacts.generate_artifacts(model, ["w"], optimizer=block, artifact_directory=folder)
    state = api.CheckpointState.load_checkpoint(f"{folder}/checkpoint")
    try:
        module = api.Module(f"{folder}/training_model.onnx", state, f"{folder}/eval_model.onnx")
        api.Optimizer(f"{folder}/optimizer_model.onnx", module)
    except RuntimeError as error:
        print("Mismatched attribute type" if "Mismatched attribute type" in str(error) else error)
