"""Gradients of norm 1e-6 are clipped to 5e-7 instead of 1e-6: the norm gets 1e-6 more.

Prints:
    [3e-07, 4e-07]
"""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

inputs, outputs = ([helper.make_tensor_sequence_value_info(name, TensorProto.FLOAT, None)] for name in ("g", "clipped"))
node = helper.make_node("InplaceClipGradNorm", ["g"], ["clipped"], domain="com.microsoft", max_norm=1e-6)
opsets = [helper.make_opsetid("", 15), helper.make_opsetid("com.microsoft", 1)]
model = helper.make_model(helper.make_graph([node], "graph", inputs, outputs), opset_imports=opsets, ir_version=8)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
(clipped,) = session.run(None, {"g": [np.array([6e-7, 8e-7], np.float32)]})
print([float(f"{number:.3g}") for number in clipped[0]])
