"""An array that occurs twice in the sequence is multiplied twice by the coefficient 1/5.

Prints:
    [0.04]
"""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

inputs, outputs = ([helper.make_tensor_sequence_value_info(name, TensorProto.FLOAT, None)] for name in ("g", "clipped"))
node = helper.make_node("InplaceClipGradNorm", ["g"], ["clipped"], domain="com.microsoft", max_norm=1.0)
opsets = [helper.make_opsetid("", 15), helper.make_opsetid("com.microsoft", 1)]
model = helper.make_model(helper.make_graph([node], "graph", inputs, outputs), opset_imports=opsets, ir_version=8)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
gradient = np.full(1, 5 / 2**0.5, np.float32)
session.run(None, {"g": [gradient, gradient]})
print([round(float(number / (5 / 2**0.5)), 4) for number in gradient])
