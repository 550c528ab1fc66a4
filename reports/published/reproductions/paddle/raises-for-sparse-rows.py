"""A row-sparse gradient has no shape to clip; by chance, the process dies.

Prints:
    OSError | RuntimeError | the process dies
"""

import paddle

embedding = paddle.nn.Embedding(4, 2, sparse=True)
clip = paddle.nn.ClipGradByValue(1.0)
optimizer = paddle.optimizer.SGD(1.0, embedding.parameters(), grad_clip=clip)
embedding(paddle.to_tensor([1, 3])).sum().backward()
try:
    optimizer.step()
except (OSError, RuntimeError) as error:
    print(type(error).__name__)
