"""Document 002, example 1: limit the L2 norm of each gradient in a static program."""

import numpy as np
import paddle.fluid as fluid
from formulas import assert_moved, clipped, norm

main_prog = fluid.Program()
startup_prog = fluid.Program()
# The document does not seed the initial weights, and with some of them the relu gives only zeros.
startup_prog.random_seed = 1
np.random.seed(1)
with fluid.program_guard(main_program=main_prog, startup_program=startup_prog):
    image = fluid.data(name="x", shape=[-1, 2], dtype="float32")
    predict = fluid.layers.fc(input=image, size=3, act="relu")  # fc_0.w_0, fc_0.b_0
    loss = fluid.layers.mean(predict)

    clip = fluid.clip.GradientClipByNorm(clip_norm=1.0)

    sgd_optimizer = fluid.optimizer.SGDOptimizer(learning_rate=0.1, grad_clip=clip)
    sgd_optimizer.minimize(loss)

place = fluid.CPUPlace()
exe = fluid.Executor(place)
x = np.random.uniform(-100, 100, (10, 2)).astype("float32")
exe.run(startup_prog)

# The document fetches only the loss. This program also fetches the gradients before clipping, from the same run.
names = ["fc_0.w_0", "fc_0.b_0"]
variables = [fluid.global_scope().find_var(name).get_tensor() for name in names]
before = [np.array(variable) for variable in variables]
out = exe.run(main_prog, feed={"x": x}, fetch_list=[loss.name] + [name + "@GRAD" for name in names])

weight_gradient, bias_gradient = out[1:]
assert norm(weight_gradient) > 1
assert norm(bias_gradient) <= 1
for variable, old, gradient in zip(variables, before, (weight_gradient, bias_gradient)):
    assert_moved(old, np.array(variable), 0.1, clipped(gradient, norm(gradient), 1.0))
