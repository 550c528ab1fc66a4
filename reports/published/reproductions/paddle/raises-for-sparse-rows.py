"""A row-sparse gradient has no shape to clip; by chance, the process dies.

Prints:
    OSError | RuntimeError | the process dies
"""

import paddle

paddle.disable_signal_handler()  # else it prints a trace when the process dies
embedding = paddle.nn.Embedding(4, 2, sparse=True)
optimizer = paddle.optimizer.SGD(1.0, embedding.parameters(), grad_clip=paddle.nn.ClipGradByValue(1.0))
embedding(paddle.to_tensor([1, 3])).sum().backward()
try:
    optimizer.step()
except (OSError, RuntimeError) as error:
    print(type(error).__name__)
