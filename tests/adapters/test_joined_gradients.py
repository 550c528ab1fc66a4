"""Test how gradients are joined by their dtypes, and how a step from zero shows them."""

from __future__ import annotations

import numpy as np

from gradclip_adapters.contract import Array, Gradient
from gradclip_adapters.joined_gradients import join_by_dtype, negate_values

NONE = Gradient("none", None)
PAIR = Gradient("g", Array.of(np.zeros(2, np.float32)))


def test_dense_gradients_of_one_dtype_are_joined() -> None:
    arrays = [np.ones((1, 2), np.float32), np.zeros(1, np.float64), np.full(1, 2.0, np.float32)]
    rows = Gradient("g", Array.of(np.ones((2, 3), np.float32)), rows=(1, 4), height=5)
    gradients = [*(Gradient("g", Array.of(array)) for array in arrays), NONE, rows]

    joined = join_by_dtype(gradients)

    assert [(part.dtype, part.numbers, part.values.tolist()) for part in joined] == [
        ("float32", (0, 2), [1.0, 1.0, 2.0]),
        ("float64", (1,), [0.0]),
    ]
    assert [part.values.dtype.name for part in joined] == ["float32", "float64"]


def test_parameter_after_a_step_from_zero_is_the_negated_gradient() -> None:
    after = [np.array([-2.0, 0.0], np.float32), np.zeros(1, np.float32), np.array([0.25], np.float32)]

    first, second, third = negate_values(after, [PAIR, NONE, NONE])

    assert first is not None
    assert first.numpy().tolist() == [2.0, 0.0]
    # The second parameter had no gradient and stayed zero. The third had no gradient but changed: a result must show
    # that.
    assert second is None
    assert third is not None
    assert third.numpy().tolist() == [-0.25]


def test_sign_of_a_nan_is_kept() -> None:
    after = np.array([np.nan, -np.nan], np.float32)

    (result,) = negate_values([after], [PAIR])

    assert result is not None
    assert np.signbit(result.numpy()).tolist() == np.signbit(after).tolist()
