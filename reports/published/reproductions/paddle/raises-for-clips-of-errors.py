"""Variables of static programs lack the method that the documentation of ErrorClipByValue calls.

Prints:
    AttributeError: 'paddle.base.libpaddle.pir.Value' object has no attribute '_set_error_clip'
"""

import paddle

paddle.enable_static()
hidden = paddle.static.data("x", [None, 784], "float32") * 2.0
try:
    hidden._set_error_clip(paddle.nn.clip.ErrorClipByValue(max=2e-6, min=-1e-6))
except AttributeError as error:
    print("AttributeError:", error)
