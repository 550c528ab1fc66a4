"""Beside float64 gradients, the epsilon of 1e-6 is rounded to float32. Exactly 1e-6 gives 2.99999940000012.

Prints:
    [2.9999994000001218, 3.999999200000162]
"""

import os
import sys

# Without the first two, the import downloads CUDA and MKL. Jittor keeps what it compiles below HOME.
os.environ.update(nvcc_path="", use_mkl="0", log_silent="1", HOME=sys.prefix)
import jittor as jt

weight, gradient = jt.zeros(2, "float64"), jt.array([3, 4], "float64")
optimizer = jt.optim.SGD([weight], lr=1.0)
optimizer.backward((weight * gradient).sum())
optimizer.clip_grad_norm(5.0)
print(optimizer.param_groups[0]["grads"][0].numpy().tolist())
