"""Call the clip of Jittor's optimizers."""

import os
import sys

# Without the first two, the import downloads CUDA and MKL. Jittor keeps what it compiles below HOME.
os.environ.update(nvcc_path="", use_mkl="0", HOME=sys.prefix)
import jittor

# The first kernel that is loaded makes subnormal numbers zero in the whole process.
jittor.zeros(1).numpy()


def make(values, dtype):
    return jittor.array(values, dtype)


def step(gradients, *, clip_norm, learning_rate=1.0, **options):
    gradients = [jittor.zeros(1) if gradient is None else gradient for gradient in gradients]
    parameters = [jittor.zeros(gradient.shape, gradient.dtype) for gradient in gradients]
    optimizer = jittor.optim.SGD(parameters, learning_rate)
    # The derivative of the sum of all parameters times the gradients is the gradients.
    optimizer.backward(sum((parameter * gradient).sum() for parameter, gradient in zip(parameters, gradients)))
    optimizer.clip_grad_norm(clip_norm, **options)
    optimizer.step()
    return [-parameter.numpy() for parameter in parameters], None


ENTRY_POINTS = {"jittor.optim.Optimizer.clip_grad_norm [SGD]": step}
