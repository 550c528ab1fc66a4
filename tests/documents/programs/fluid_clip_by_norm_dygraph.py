"""Document 002, example 2: limit the L2 norm of each gradient in dygraph."""

import paddle.fluid as fluid
from formulas import assert_moved, clipped, norm

# The 1.0 of the document is above both norms. The second threshold is below them.
for clip_norm in (1.0, 0.0625):
    with fluid.dygraph.guard():
        linear = fluid.dygraph.Linear(10, 10)  # linear_0.w_0, linear_0.b_0
        inputs = fluid.layers.uniform_random([32, 10]).astype("float32")
        out = linear(fluid.dygraph.to_variable(inputs))
        loss = fluid.layers.reduce_mean(out)
        loss.backward()
        before = [parameter.numpy() for parameter in linear.parameters()]
        gradients = [parameter.gradient() for parameter in linear.parameters()]

        clip = fluid.clip.GradientClipByNorm(clip_norm=clip_norm)

        sgd_optimizer = fluid.optimizer.SGD(learning_rate=0.1, parameter_list=linear.parameters(), grad_clip=clip)
        sgd_optimizer.minimize(loss)

        # The gradient of the bias is 32 / 320 in each of its 10 elements.
        assert (norm(gradients[1]) > clip_norm) == (clip_norm == 0.0625)
        for parameter, old, gradient in zip(linear.parameters(), before, gradients):
            assert_moved(old, parameter.numpy(), 0.1, clipped(gradient, norm(gradient), clip_norm))
