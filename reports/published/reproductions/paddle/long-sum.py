"""The norm of 25,000,000 elements has a relative error above 1e-5.

Prints:
    True
"""

import numpy as np
import paddle

numbers = np.random.default_rng(0).standard_normal(25_000_000, dtype=np.float32)
right = np.linalg.norm(numbers.astype(np.float64))
parameter = paddle.create_parameter([25_000_000], "float32")
parameter.grad = paddle.to_tensor(numbers)
norm = paddle.nn.utils.clip_grad_norm_([parameter], 1.0)
print(abs(norm.item() / right - 1) > 1e-5)
