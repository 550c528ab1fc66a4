"""Call the clips of NNabla."""

import nnabla
import nnabla.functions
import nnabla.solvers
import numpy as np


def make(values, dtype):
    return nnabla.NdArray.from_numpy_array(np.array(values, dtype))


def read(tensor):
    return tensor.data if isinstance(tensor, nnabla.NdArray) else tensor


def clip_by_value(gradients, *, max, min):
    return [nnabla.functions.clip_by_value(gradient, min, max) for gradient in gradients], None


def clip_by_norm(gradients, *, clip_norm):
    return [nnabla.functions.clip_by_norm(gradient, clip_norm) for gradient in gradients], None


def step(gradients, *, clip_norm, learning_rate=1.0):
    parameters = {}
    for index, gradient in enumerate(gradients):
        parameters[str(index)] = nnabla.Variable(gradient.shape, need_grad=True)
        parameters[str(index)].data.zero()
        parameters[str(index)].grad = gradient
    solver = nnabla.solvers.Sgd(lr=learning_rate)
    solver.set_parameters(parameters)
    solver.clip_grad_by_norm(clip_norm)
    solver.update()
    return [-parameter.d for parameter in parameters.values()], None


ENTRY_POINTS = {
    "nnabla.functions.clip_by_value": clip_by_value,
    "nnabla.functions.clip_by_norm": clip_by_norm,
    "nnabla.solvers.Sgd.clip_grad_by_norm": step,
}
