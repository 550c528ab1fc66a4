"""Test which gradients become weights, which become biases, and which share a layer."""

from __future__ import annotations

import numpy as np
import pytest

from gradclip_adapters.contract import Array, Gradient
from gradclip_adapters.linear_layers import LinearLayer, build_linear_layers, join_by_dtype, negate_values


def make_gradients(*shapes: tuple[int, ...] | None, dtype: str = "float32") -> list[Gradient]:
    """Return gradients of zeros with these shapes, and None for None."""
    return [
        Gradient(f"g{number}", None if shape is None else Array.of(np.zeros(shape, dtype)))
        for number, shape in enumerate(shapes)
    ]


def test_vector_after_a_matrix_of_its_width_becomes_the_bias() -> None:
    assert build_linear_layers(make_gradients((2, 3), (3,))) == (LinearLayer("float32", 2, 3, weight=0, bias=1),)


@pytest.mark.parametrize(
    ("shapes", "expected"),
    [
        (((2, 3), (4,)), [(2, 3, 0, None), (1, 4, None, 1)]),
        (((3,), (2, 3)), [(1, 3, None, 0), (2, 3, 1, None)]),
        (((2, 3), (3,), (3,)), [(2, 3, 0, 1), (1, 3, None, 2)]),
        (((2, 3), None, (3,)), [(2, 3, 0, None), (1, 1, 1, None), (1, 3, None, 2)]),
        ((None, (1,)), [(1, 1, 0, None), (1, 1, None, 1)]),
    ],
)
def test_other_gradients_get_their_own_layers(
    shapes: tuple[tuple[int, ...] | None, ...], expected: list[tuple[int, int, int | None, int | None]]
) -> None:
    layers = build_linear_layers(make_gradients(*shapes))

    assert [(layer.in_features, layer.out_features, layer.weight, layer.bias) for layer in layers] == expected


def test_bias_of_another_dtype_gets_its_own_layer() -> None:
    mixed = [*make_gradients((2, 3)), *make_gradients((3,), dtype="float64")]

    assert [layer.dtype for layer in build_linear_layers(mixed)] == ["float32", "float64"]


def test_row_sparse_gradient_gets_no_bias() -> None:
    some_rows = Gradient("g", Array.of(np.ones((2, 3), np.float32)), rows=(1, 4), height=5)
    gradients = [some_rows, *make_gradients((3,))]

    assert build_linear_layers(gradients) == (
        LinearLayer("float32", 5, 3, weight=0),
        LinearLayer("float32", 1, 3, bias=1),
    )
    assert [part.numbers for part in join_by_dtype(gradients)] == [(1,)]


@pytest.mark.parametrize("shape", [(), (1, 2, 3)])
def test_gradients_of_other_ranks_become_separate_parameters(shape: tuple[int, ...]) -> None:
    layers = build_linear_layers(make_gradients(shape, (3,)))

    assert layers == (LinearLayer("float32", 0, 0, weight=0, shape=shape), LinearLayer("float32", 1, 3, bias=1))


def test_gradients_of_one_dtype_are_joined() -> None:
    arrays = [np.ones((1, 2), np.float32), np.zeros(1, np.float64), np.full(1, 2.0, np.float32)]
    gradients = [*(Gradient("g", Array.of(array)) for array in arrays), Gradient("none", None)]

    joined = join_by_dtype(gradients)

    assert [(part.dtype, part.numbers, part.values.tolist()) for part in joined] == [
        ("float32", (0, 2), [1.0, 1.0, 2.0]),
        ("float64", (1,), [0.0]),
    ]
    assert [part.values.dtype.name for part in joined] == ["float32", "float64"]


def test_parameter_after_a_step_from_zero_is_the_negated_gradient() -> None:
    after = [np.array([-2.0, 0.0], np.float32), np.zeros(1, np.float32), np.array([0.25], np.float32)]
    gradients = [*make_gradients((2,)), *make_gradients(None, None)]

    first, second, third = negate_values(after, gradients)

    assert first is not None
    assert first.numpy().tolist() == [2.0, 0.0]
    # The second parameter had no gradient and stayed zero. The third had no gradient but changed: a result must show
    # that.
    assert second is None
    assert third is not None
    assert third.numpy().tolist() == [-0.25]


def test_sign_of_a_nan_is_kept() -> None:
    after = np.array([np.nan, -np.nan], np.float32)

    (result,) = negate_values([after], make_gradients((2,)))

    assert result is not None
    assert np.signbit(result.numpy()).tolist() == np.signbit(after).tolist()
