"""A NaN makes the result NaN, but an array that is not contiguous keeps its other elements.

Prints:
    [nan, nan] [nan, 4.0]
"""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper

inputs, outputs = ([helper.make_tensor_sequence_value_info(name, TensorProto.FLOAT, None)] for name in ("g", "clipped"))
node = helper.make_node("InplaceClipGradNorm", ["g"], ["clipped"], domain="com.microsoft", max_norm=1.0)
opsets = [helper.make_opsetid("", 15), helper.make_opsetid("com.microsoft", 1)]
model = helper.make_model(helper.make_graph([node], "graph", inputs, outputs), opset_imports=opsets, ir_version=8)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
gradient = np.array([np.nan, 0.0, 4.0, 0.0], np.float32)[::2]
(clipped,) = session.run(None, {"g": [gradient]})
print(clipped[0].tolist(), gradient.tolist())
