"""Call a plain function on arrays of NumPy. The script calls it by its name, so there are no entry points here."""

import numpy as np


def make(values, dtype):
    return np.array(values, dtype)


def make_strided(array):
    return np.repeat(array, 2, -1)[..., ::2]


def make_transposed(array):
    return np.asfortranarray(array)


def make_sliced(array):
    axes = min(array.ndim, 2)
    widths = [(0, 0)] * (array.ndim - 2) + [(1, 1)] * axes
    return np.pad(array, widths)[(..., *[slice(1, -1)] * axes)]


def make_reversed(array):
    return np.flip(np.flip(array).copy())


def split(returned, gradients):
    # A function that works in place may return nothing, or the norm alone.
    results, norm = returned if isinstance(returned, tuple) else (returned, returned)
    return results if isinstance(results, list) else gradients, norm
