"""Document 002, example 2 with its commented lines: `need_clip` chooses by `ParamBase.name`."""

import paddle.fluid as fluid
from formulas import assert_moved, clipped, norm

with fluid.dygraph.guard():
    linear = fluid.dygraph.Linear(10, 10)  # linear_0.w_0, linear_0.b_0
    # The inputs are larger than those of the document, so that the weight has a gradient large enough to clip.
    inputs = fluid.layers.uniform_random([32, 10], min=1.0, max=2.0).astype("float32")
    out = linear(fluid.dygraph.to_variable(inputs))
    loss = fluid.layers.reduce_mean(out)
    loss.backward()
    weight, bias = linear.weight.numpy(), linear.bias.numpy()
    weight_gradient, bias_gradient = linear.weight.gradient(), linear.bias.gradient()

    def fileter_func(ParamBase):  # noqa: N803 (the document's names)
        return ParamBase.name == "linear_0.w_0"

    # The document also writes the predicate this way.
    for parameter in linear.parameters():
        assert fileter_func(parameter) == (parameter.name == linear.weight.name)

    # This threshold is below both norms, unlike the document's 1.0, so that excluding the bias makes a difference.
    clip = fluid.clip.GradientClipByNorm(clip_norm=0.0625, need_clip=fileter_func)

    sgd_optimizer = fluid.optimizer.SGD(learning_rate=0.1, parameter_list=linear.parameters(), grad_clip=clip)
    sgd_optimizer.minimize(loss)

    assert norm(weight_gradient) > 0.0625
    assert norm(bias_gradient) > 0.0625
    assert_moved(weight, linear.weight.numpy(), 0.1, clipped(weight_gradient, norm(weight_gradient), 0.0625))
    assert_moved(bias, linear.bias.numpy(), 0.1, bias_gradient.astype("float64"))
