"""Kernels are compiled with -Ofast, which makes a subnormal gradient zero, although nothing is clipped.

Prints:
    [0.0, 1.0]
"""

import os
import sys

# Without the first two, the import downloads CUDA and MKL. Jittor keeps what it compiles below HOME.
os.environ.update(nvcc_path="", use_mkl="0", log_silent="1", HOME=sys.prefix)
import jittor as jt

# The first kernel that is loaded changes how the whole process computes.
jt.zeros(1).numpy()

weight, gradient = jt.zeros(2, "float32"), jt.array([1e-40, 1], "float32")
optimizer = jt.optim.SGD([weight], lr=1.0)
optimizer.backward((weight * gradient).sum())
optimizer.clip_grad_norm(10.0)
print(optimizer.param_groups[0]["grads"][0].numpy().tolist())
