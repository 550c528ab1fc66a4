"""Document 002, example 1 with its commented lines: `need_clip` chooses by `Parameter.name`."""

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

    def fileter_func(Parameter):  # noqa: N803 (the document's names)
        return Parameter.name == "fc_0.w_0"

    # This threshold is below both norms, unlike the document's 1.0, so that excluding the bias makes a difference.
    clip = fluid.clip.GradientClipByNorm(clip_norm=0.0625, need_clip=fileter_func)

    sgd_optimizer = fluid.optimizer.SGDOptimizer(learning_rate=0.1, grad_clip=clip)
    sgd_optimizer.minimize(loss)

place = fluid.CPUPlace()
exe = fluid.Executor(place)
x = np.random.uniform(-100, 100, (10, 2)).astype("float32")
exe.run(startup_prog)

names = ["fc_0.w_0", "fc_0.b_0"]
variables = [fluid.global_scope().find_var(name).get_tensor() for name in names]
before = [np.array(variable) for variable in variables]
out = exe.run(main_prog, feed={"x": x}, fetch_list=[loss.name] + [name + "@GRAD" for name in names])

weight_gradient, bias_gradient = out[1:]
assert norm(weight_gradient) > 0.0625
assert norm(bias_gradient) > 0.0625
expected = [clipped(weight_gradient, norm(weight_gradient), 0.0625), bias_gradient.astype("float64")]
for variable, old, gradient in zip(variables, before, expected):
    assert_moved(old, np.array(variable), 0.1, gradient)
