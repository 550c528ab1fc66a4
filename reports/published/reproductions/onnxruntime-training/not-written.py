"""An array that is not contiguous stays as it was, although the operator clips in place.

Prints:
    [[0.6, 0.8], [3.0, 4.0]]
"""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

inputs, outputs = ([helper.make_tensor_sequence_value_info(name, TensorProto.FLOAT, None)] for name in ("g", "clipped"))
node = helper.make_node("InplaceClipGradNorm", ["g"], ["clipped"], domain="com.microsoft", max_norm=1.0)
opsets = [helper.make_opsetid("", 15), helper.make_opsetid("com.microsoft", 1)]
model = helper.make_model(helper.make_graph([node], "graph", inputs, outputs), opset_imports=opsets, ir_version=8)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
contiguous, strided = np.array([3.0, 4.0], np.float32), np.array([3.0, 0.0, 4.0, 0.0], np.float32)[::2]
for gradient in (contiguous, strided):
    session.run(None, {"g": [gradient]})
print([[round(float(number), 4) for number in gradient] for gradient in (contiguous, strided)])
