"""A clip by value of no gradients raises an error.

Prints:
    Expected !nested_tensorlist[0].empty() to be true,
"""

import accelerate

try:
    accelerate.Accelerator(cpu=True).clip_grad_value_([], 1.0)
except RuntimeError as error:
    print(str(error)[:50])
