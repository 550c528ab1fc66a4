"""The schema of the operator lists sequences of double, but its kernel refuses them.

Prints:
    RuntimeException: Tensor type mismatch
"""

import numpy as np
import onnxruntime
from onnx import TensorProto, helper
from onnxruntime.capi.onnxruntime_pybind11_state import RuntimeException

inputs, outputs = (
    [helper.make_tensor_sequence_value_info(name, TensorProto.DOUBLE, None)] for name in ("g", "clipped")
)
node = helper.make_node("InplaceClipGradNorm", ["g"], ["clipped"], domain="com.microsoft", max_norm=1.0)
opsets = [helper.make_opsetid("", 15), helper.make_opsetid("com.microsoft", 1)]
model = helper.make_model(helper.make_graph([node], "graph", inputs, outputs), opset_imports=opsets, ir_version=8)
session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
try:
    session.run(None, {"g": [np.array([3.0, 4.0])]})
except RuntimeException as error:
    print(f"{type(error).__name__}: {'Tensor type mismatch' * ('Tensor type mismatch' in str(error))}")
