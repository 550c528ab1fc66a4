"""Compute the formulas of the documents in float64, and check one step of gradient descent.

The oldest programs run in an old Python, so this module needs only NumPy.
"""

import numpy as np


def norm(gradient):
    """Return `norm(X) = (sum |x_i|^2)^(1/2)`."""
    return float(np.sqrt(np.sum(np.square(gradient, dtype=np.float64))))


def global_norm(gradients):
    """Return `global_norm = sqrt(sum norm(X[i])^2)`."""
    return float(np.sqrt(sum(norm(gradient) ** 2 for gradient in gradients)))


def clipped(gradient, size, clip_norm):
    """Return `X` if `size <= clip_norm`, else `clip_norm * X / size`."""
    wide = gradient.astype(np.float64)
    return wide if size <= clip_norm else clip_norm * wide / size


def assert_close(actual, expected):
    """Check float32 results against their exact values.

    The bound covers the errors of a float32 norm, whose squares are added one by one, of a division and of a product.
    """
    assert actual.shape == expected.shape, (actual.shape, expected.shape)
    bound = (expected.size + 8) * 2.0**-24 * np.abs(expected)
    assert np.all(np.abs(actual - expected) <= bound), (actual, expected)


def assert_moved(before, after, learning_rate, gradient):
    """Check that `after = before - learning_rate * gradient`, up to the rounding of float32."""
    step = learning_rate * gradient
    expected = before.astype(np.float64) - step
    bound = (gradient.size + 8) * 2.0**-24 * (np.abs(before) + np.abs(step))
    assert np.all(np.abs(after - expected) <= bound), (after, expected)
    assert not np.array_equal(before, after), "the step changed nothing"
