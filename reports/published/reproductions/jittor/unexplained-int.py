"""A threshold of 5 * 2**30 becomes 2**30, because Jittor makes int32 of a Python int.

Prints:
    [1073741824.0, 0.0]
"""

import os
import sys

# Without the first two, the import downloads CUDA and MKL. Jittor keeps what it compiles below HOME.
os.environ.update(nvcc_path="", use_mkl="0", log_silent="1", HOME=sys.prefix)
import jittor as jt

weight, gradient = jt.zeros(2, "float32"), jt.array([3 * 2**31, 0], "float32")
optimizer = jt.optim.SGD([weight], lr=1.0)
optimizer.backward((weight * gradient).sum())
optimizer.clip_grad_norm(5 * 2**30)
print(optimizer.param_groups[0]["grads"][0].numpy().tolist())
