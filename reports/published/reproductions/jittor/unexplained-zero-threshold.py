"""A threshold of 2e-143 is zero in float32, and the gradient of norm 4e-143 becomes zero.

Prints:
    [0.0, 0.0]
"""

import os
import sys

# Without the first two, the import downloads CUDA and MKL. Jittor keeps what it compiles below HOME.
os.environ.update(nvcc_path="", use_mkl="0", log_silent="1", HOME=sys.prefix)
import jittor as jt

weight, gradient = jt.zeros(2, "float64"), jt.array([4e-143, 0], "float64")
optimizer = jt.optim.SGD([weight], lr=1.0)
optimizer.backward((weight * gradient).sum())
optimizer.clip_grad_norm(2e-143)
print(optimizer.param_groups[0]["grads"][0].numpy().tolist())
