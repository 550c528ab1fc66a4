"""A max_norm of the type int makes the model invalid.

Prints:
    InvalidGraph: Mismatched attribute type
"""

import onnxruntime
from onnx import TensorProto, helper
from onnxruntime.capi.onnxruntime_pybind11_state import InvalidGraph

inputs, outputs = ([helper.make_tensor_sequence_value_info(name, TensorProto.FLOAT, None)] for name in ("g", "clipped"))
node = helper.make_node("InplaceClipGradNorm", ["g"], ["clipped"], domain="com.microsoft", max_norm=2)
opsets = [helper.make_opsetid("", 15), helper.make_opsetid("com.microsoft", 1)]
model = helper.make_model(helper.make_graph([node], "graph", inputs, outputs), opset_imports=opsets, ir_version=8)
try:
    onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
except InvalidGraph as error:
    print(f"{type(error).__name__}: {'Mismatched attribute type' * ('Mismatched attribute type' in str(error))}")
