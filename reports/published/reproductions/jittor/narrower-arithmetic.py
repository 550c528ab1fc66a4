"""Beside float64 gradients, a threshold of 0.1 is rounded to float32. The results are not 0.06 and 0.08.

Prints:
    [0.06000000089406966, 0.08000000119209288]
"""

import os
import sys

# Without the first two, the import downloads CUDA and MKL. Jittor keeps what it compiles below HOME.
os.environ.update(nvcc_path="", use_mkl="0", log_silent="1", HOME=sys.prefix)
import jittor as jt

weight, gradient = jt.zeros(2, "float64"), jt.array([3e9, 4e9], "float64")
optimizer = jt.optim.SGD([weight], lr=1.0)
optimizer.backward((weight * gradient).sum())
optimizer.clip_grad_norm(0.1)
print(optimizer.param_groups[0]["grads"][0].numpy().tolist())
