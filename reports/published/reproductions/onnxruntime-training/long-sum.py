"""The sum of 2**24 squares loses digits in float32, and the norm becomes 1.01 instead of 1.

Prints:
    1.01
"""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

inputs, outputs = ([helper.make_tensor_sequence_value_info(name, TensorProto.FLOAT, None)] for name in ("g", "clipped"))
node = helper.make_node("InplaceClipGradNorm", ["g"], ["clipped"], domain="com.microsoft", max_norm=1.0)
opsets = [helper.make_opsetid("", 15), helper.make_opsetid("com.microsoft", 1)]
model = helper.make_model(helper.make_graph([node], "graph", inputs, outputs), opset_imports=opsets, ir_version=8)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
gradient = np.full(2**24, 0.1, np.float32)
(clipped,) = session.run(None, {"g": [gradient]})
print(round(float(np.sqrt(np.sum(np.square(clipped[0], dtype=np.float64)))), 2))
