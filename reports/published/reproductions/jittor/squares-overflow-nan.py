"""A threshold of 1e200 is infinite in float32, and so is the norm: infinity over infinity is NaN.

Prints:
    [nan, nan]
"""

import os
import sys

# Without the first two, the import downloads CUDA and MKL. Jittor keeps what it compiles below HOME.
os.environ.update(nvcc_path="", use_mkl="0", log_silent="1", HOME=sys.prefix)
import jittor as jt

weight, gradient = jt.zeros(2, "float64"), jt.array([3e200, 4e200], "float64")
optimizer = jt.optim.SGD([weight], lr=1.0)
optimizer.backward((weight * gradient).sum())
optimizer.clip_grad_norm(1e200)
print(optimizer.param_groups[0]["grads"][0].numpy().tolist())
