"""The 2-norm of a million float32 elements is off by more than 100 of its last digits.

Prints:
    True
"""

import os
import sys

# Without the first two, the import downloads CUDA and MKL. Jittor keeps what it compiles below HOME.
os.environ.update(nvcc_path="", use_mkl="0", log_silent="1", HOME=sys.prefix)
import jittor as jt

weight, gradient = jt.zeros(1_000_000), jt.full((1_000_000,), 0.1)
optimizer = jt.optim.SGD([weight], lr=1.0)
optimizer.backward((weight * gradient).sum())
optimizer.clip_grad_norm(1.0)
print(abs(optimizer.param_groups[0]["grads"][0].numpy()[0] - 0.001) > 100 * 2**-33)
