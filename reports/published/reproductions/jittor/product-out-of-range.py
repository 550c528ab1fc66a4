"""The threshold over the norm plus 1e-6 is 1e-18, and its product with the gradient is subnormal, which becomes zero.

Prints:
    [0.0, 0.0]
"""

import os
import sys

# Without the first two, the import downloads CUDA and MKL. Jittor keeps what it compiles below HOME.
os.environ.update(nvcc_path="", use_mkl="0", log_silent="1", HOME=sys.prefix)
import jittor as jt

# The first kernel that is loaded changes how the whole process computes.
jt.zeros(1).numpy()

weight, gradient = jt.zeros(2, "float32"), jt.array([3e-24, 4e-24], "float32")
optimizer = jt.optim.SGD([weight], lr=1.0)
optimizer.backward((weight * gradient).sum())
optimizer.clip_grad_norm(1e-24)
print(optimizer.param_groups[0]["grads"][0].numpy().tolist())
