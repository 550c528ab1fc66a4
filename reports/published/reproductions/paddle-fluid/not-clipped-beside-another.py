"""The clip of the last parameter, with infinite bounds, clips every gradient: 3 stays 3, and does not become 1.

Prints:
    [3.0, 3.0]
"""

from paddle import fluid

parameters = [fluid.layers.create_parameter([2], "float32") for _ in range(2)]
loss = fluid.layers.reduce_sum(parameters[0] * 3.0 + parameters[1])
fluid.clip.set_gradient_clip(fluid.clip.GradientClipByValue(1.0), [parameters[0]])
fluid.clip.set_gradient_clip(fluid.clip.GradientClipByValue(float("inf")), [parameters[1]])
pairs = fluid.clip.append_gradient_clip_ops(fluid.backward.append_backward(loss))
executor = fluid.Executor()
executor.run(fluid.default_startup_program())
print(executor.run(fetch_list=[{one.name: g for one, g in pairs}[parameters[0].name]])[0].tolist())
