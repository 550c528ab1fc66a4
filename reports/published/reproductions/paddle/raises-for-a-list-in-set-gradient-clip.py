"""set_gradient_clip refuses the parameters of a static program.

Prints:
    TypeError: 'param_list' should be a list of Parameter or basestring(parameter's name).
"""

import paddle

paddle.enable_static()
parameter = paddle.static.create_parameter([2], "float32")
try:
    paddle.nn.clip.set_gradient_clip(paddle.nn.ClipGradByGlobalNorm(1.0), [parameter])
except TypeError as error:
    print("TypeError:", error)
