"""The clip of the last parameter clips every group: 3 becomes 0.75, not 1.

Prints:
    0.75 1.0
"""

from paddle import fluid

parameters = [fluid.layers.create_parameter([1], "float32") for _ in range(2)]
loss = fluid.layers.reduce_sum(parameters[0] * 3.0 + parameters[1] * 4.0)
for parameter in parameters:
    fluid.clip.set_gradient_clip(fluid.clip.GradientClipByGlobalNorm(1.0, parameter.name), [parameter])
pairs = fluid.clip.append_gradient_clip_ops(fluid.backward.append_backward(loss))
executor = fluid.Executor()
executor.run(fluid.default_startup_program())
print(*(executor.run(fetch_list=[{one.name: g for one, g in pairs}[each.name]])[0].item() for each in parameters))
