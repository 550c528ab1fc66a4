"""The shape of a row-sparse gradient is read from uninitialized memory; by chance, a clip by value takes minutes.

Prints:
    no answer in 20 s | it ends with 0 | it ends with 1 | it ends with -6 | it ends with -9 | it ends with -11
"""

import subprocess
import sys

STEP = """
import paddle
paddle.disable_signal_handler()
embedding = paddle.nn.Embedding(4, 2, sparse=True)
(embedding(paddle.to_tensor([1, 1])) * paddle.to_tensor([[8.0, -8.0], [-8.0, 8.0]])).sum().backward()
clip = paddle.nn.ClipGradByValue(1.0)
paddle.optimizer.SGD(1.0, parameters=embedding.parameters(), grad_clip=clip).step()
"""
try:
    done = subprocess.run([sys.executable, "-c", STEP], timeout=20, capture_output=True, check=False)  # noqa: S603
    print("it ends with", done.returncode)
except subprocess.TimeoutExpired:
    print("no answer in 20 s")
