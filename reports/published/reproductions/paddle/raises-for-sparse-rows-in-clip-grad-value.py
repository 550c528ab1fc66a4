"""A row-sparse gradient has no shape to clip in clip_grad_value_; by chance, the process dies.

Prints:
    OSError | RuntimeError | the process dies
"""

import paddle

paddle.disable_signal_handler()  # else it prints a trace when the process dies
embedding = paddle.nn.Embedding(4, 2, sparse=True)
embedding(paddle.to_tensor([1, 3])).sum().backward()
try:
    paddle.nn.utils.clip_grad_value_(embedding.parameters(), 1.0)
except (OSError, RuntimeError) as error:
    print(type(error).__name__)
