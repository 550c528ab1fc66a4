"""Document 003: compare the gradients of one network before and after `set_gradient_clip`."""

import numpy as np
import paddle
import paddle.fluid as fluid
import paddle.fluid.core as core
from formulas import assert_close, clipped, norm

place = core.CPUPlace()
prog = fluid.framework.Program()
startup_program = fluid.framework.Program()
startup_program.random_seed = 1
with fluid.program_guard(main_program=prog, startup_program=startup_program):
    image = fluid.layers.data(name="x", shape=[784], dtype="float32")
    label = fluid.layers.data(name="y", shape=[1], dtype="int64")
    hidden1 = fluid.layers.fc(input=image, size=128, act="relu")
    hidden2 = fluid.layers.fc(input=hidden1, size=64, act="relu")
    predict = fluid.layers.fc(input=hidden2, size=10, act="softmax")
    cost = fluid.layers.cross_entropy(input=predict, label=label)
    avg_cost = fluid.layers.mean(cost)
prog_clip = prog.clone()
avg_cost_clip = prog_clip.block(0).var(avg_cost.name)
p_g = fluid.backward.append_backward(loss=avg_cost)
p_g_clip = fluid.backward.append_backward(loss=avg_cost_clip)
with fluid.program_guard(main_program=prog_clip, startup_program=startup_program):
    fluid.clip.set_gradient_clip(fluid.clip.GradientClipByNorm(clip_norm=2.0))
    p_g_clip = fluid.clip.append_gradient_clip_ops(p_g_clip)
grad_list = [elem[1] for elem in p_g]
grad_clip_list = [elem[1] for elem in p_g_clip]


def train():
    """Yield random digits and images of 784 pixels in [-1, 1], instead of MNIST."""
    generator = np.random.RandomState(0)
    for _ in range(8 * 128):
        # One digit is more frequent than in MNIST, so that some gradients are large enough to clip.
        digit = 0 if generator.uniform() < 0.9 else generator.randint(10)
        yield generator.uniform(-1, 1, 784).astype("float32"), digit


train_reader = paddle.batch(paddle.reader.shuffle(train, buf_size=8192), batch_size=128)

exe = fluid.Executor(place)
feeder = fluid.DataFeeder(feed_list=[image, label], place=place)
exe.run(startup_program)

# fluid orders the gradients of the two programs differently, so compare them by the names of their parameters.
names = [elem[0].name for elem in p_g]
names_clip = [elem[0].name for elem in p_g_clip]
assert len(names) == 6
assert set(names) == set(names_clip)
was_clipped = set()
count = 0
for data in train_reader():
    count += 1
    print("count:%s" % count)  # noqa: UP031 (the document's line)
    if count > 5:
        break
    out = exe.run(prog, feed=feeder.feed(data), fetch_list=grad_list)
    out_clip = exe.run(prog_clip, feed=feeder.feed(data), fetch_list=grad_clip_list)
    after_by_name = dict(zip(names_clip, out_clip))
    for name, gradient in zip(names, out):
        was_clipped.add(norm(gradient) > 2)
        assert_close(after_by_name[name], clipped(gradient, norm(gradient), 2.0))

assert count == 6
assert was_clipped == {False, True}, "one of the two branches was not taken"
