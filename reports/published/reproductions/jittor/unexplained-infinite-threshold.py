"""A threshold of 1e180 is infinite in float32, and the 1-norm of 7e180 is not clipped.

Prints:
    [3e+180, 4e+180]
"""

import os
import sys

# Without the first two, the import downloads CUDA and MKL. Jittor keeps what it compiles below HOME.
os.environ.update(nvcc_path="", use_mkl="0", log_silent="1", HOME=sys.prefix)
import jittor as jt

weight, gradient = jt.zeros(2, "float64"), jt.array([3e180, 4e180], "float64")
optimizer = jt.optim.SGD([weight], lr=1.0)
optimizer.backward((weight * gradient).sum())
optimizer.clip_grad_norm(1e180, norm_type=1)
print(optimizer.param_groups[0]["grads"][0].numpy().tolist())
