"""A threshold of -1 is not refused, and turns the signs of the gradients around.

Prints:
    [-0.6, 0.8]
"""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

inputs, outputs = ([helper.make_tensor_sequence_value_info(name, TensorProto.FLOAT, None)] for name in ("g", "clipped"))
node = helper.make_node("InplaceClipGradNorm", ["g"], ["clipped"], domain="com.microsoft", max_norm=-1.0)
opsets = [helper.make_opsetid("", 15), helper.make_opsetid("com.microsoft", 1)]
model = helper.make_model(helper.make_graph([node], "graph", inputs, outputs), opset_imports=opsets, ir_version=8)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
(clipped,) = session.run(None, {"g": [np.array([3.0, -4.0], np.float32)]})
print([round(float(number), 4) for number in clipped[0]])
