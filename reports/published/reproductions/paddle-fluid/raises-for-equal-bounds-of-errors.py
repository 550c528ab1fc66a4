"""The clip of errors refuses bounds that are equal.

Prints:
    EnforceNotMet
"""

from paddle import fluid

hidden = fluid.layers.assign(fluid.layers.create_parameter([2], "float32"))
hidden._set_error_clip(fluid.clip.ErrorClipByValue(max=0.5, min=0.5))
fluid.optimizer.SGD(1.0).minimize(fluid.layers.reduce_sum(hidden * 2.0))
executor = fluid.Executor()
executor.run(fluid.default_startup_program())
try:
    executor.run()
except fluid.core.EnforceNotMet as error:
    print(type(error).__name__)
