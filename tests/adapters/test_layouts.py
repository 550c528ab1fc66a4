"""Check the memory layouts of a call's arrays, and the linear layers whose parameters get its gradients."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from gradclip_adapters.arrays import FEATURE_OF_LAYOUT, build_tensors, lay_out, list_parameters, make_array
from gradclip_adapters.contract import Array, EntryPoint, Gradient
from gradclip_adapters.linear_layers import build_linear_layers, join_by_dtype, negate_values
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.cases.stacking import Stacking


def build(gradients: list[Gradient]) -> list[npt.NDArray[Any]]:
    return [one for one in build_tensors(gradients, make_array) if one is not None]


@pytest.mark.parametrize("layout", ["contiguous", *FEATURE_OF_LAYOUT])
@pytest.mark.parametrize("shape", [(), (0,), (5,), (3, 4), (2, 1, 3)])
def test_layout_keeps_the_values(layout: str, shape: tuple[int, ...]) -> None:
    values = np.arange(np.prod(shape, dtype=int), dtype="float32").reshape(shape)
    if layout == "broadcast" and values.ndim:
        values = np.broadcast_to(values[:1], shape)
    assert np.array_equal(lay_out(values, layout), values)


@pytest.mark.parametrize(
    ("layout", "strides"),
    [
        ("contiguous", (12, 4)),
        ("strided", (24, 8)),
        ("transposed", (4, 8)),
        ("sliced", (20, 4)),
        ("reversed", (-12, -4)),
        ("broadcast", (0, 4)),
    ],
)
def test_layouts_differ_in_memory(layout: str, strides: tuple[int, ...]) -> None:
    assert lay_out(np.ones((2, 3), np.float32), layout).strides == strides


def test_broadcast_gradients_of_cases_have_equal_parts() -> None:
    for case in list_all_cases():
        stacking = Stacking(EntryPoint("s", case.operation, ("float32",)))
        for gradient in stacking.stack(case.gradients):
            if gradient.layout == "broadcast" and gradient.array is not None:
                bits = gradient.array.bits()
                assert np.array_equal(lay_out(bits, "broadcast"), bits), f"{case.id}: no array is laid out like this"


@pytest.mark.parametrize("values", [[[1.0, 2.0], [1.0, 2.0]], [[1.0, 1.0], [2.0, 2.0]]], ids=["rows", "columns"])
def test_broadcast_shares_what_is_equal(values: list[list[float]]) -> None:
    given = np.array(values)

    made = lay_out(given, "broadcast")

    assert np.array_equal(made, given)
    assert 0 in made.strides
    assert not made.flags.writeable


def test_the_middle_of_a_buffer_has_gaps_but_no_large_ones() -> None:
    sliced = lay_out(np.ones((50, 2, 1, 3, 1, 2), np.float32), "sliced")

    assert sliced.base is not None
    # Gaps along all six axes would make it sixty times as large.
    assert sliced.size < sliced.base.size <= 6 * sliced.size
    assert not sliced[0].flags.c_contiguous
    assert not sliced[0, 0, 0].flags.c_contiguous


def test_every_other_parameter_has_the_layout_of_its_gradient() -> None:
    matrix = Array.of(np.array([[3.0, 4.0], [5.0, 6.0]], np.float32))
    gradients = [Gradient(str(place), matrix, layout="transposed", parameter=matrix) for place in range(2)]

    first, second = list_parameters(gradients)

    assert (first.layout, second.layout) == ("transposed", "contiguous")
    assert first.array == second.array == matrix


def test_packed_gradients_of_a_call_lie_in_one_buffer() -> None:
    dtypes = ["float32", "float64", "float16", "float32"]
    given = [np.arange(number + 1, dtype=dtype) for number, dtype in enumerate(dtypes)]
    gradients = [Gradient(str(number), Array.of(one), layout="packed") for number, one in enumerate(given)]

    first, again = build(gradients), build(gradients)

    for one, values in zip(first, given, strict=True):
        assert one.flags.writeable
        assert one.flags.aligned
        assert np.array_equal(one, values)
    bases = {id(one.base.base if one.base.base is not None else one.base) for one in first}
    places = [one.__array_interface__["data"][0] for one in first]
    assert len(bases) == 1
    assert places == sorted(places)
    assert places[-1] - places[0] < 64
    assert not any(np.shares_memory(one, other) for one in first for other in again)
    # If all gradients have one dtype, so has the buffer.
    assert build(gradients[:1])[0].base.dtype == np.float32
    # Nothing is packed outside a call.
    assert lay_out(given[0], "packed").base is None


def test_swapped_elements_have_the_other_byte_order() -> None:
    values = np.array([1.0, 2.5])

    assert lay_out(values, "swapped").dtype == values.dtype.newbyteorder()
    assert Array.of(lay_out(values, "swapped")) == Array.of(values)


def make_gradients(*shapes: tuple[int, ...] | None, dtype: str = "float32") -> list[Gradient]:
    """Return gradients of zeros with these shapes, and None for None."""
    return [Gradient("g", None if shape is None else Array.of(np.zeros(shape, dtype))) for shape in shapes]


ROWS = Gradient("rows", Array.of(np.ones((2, 3), np.float32)), rows=(1, 4), height=5)


@pytest.mark.parametrize(
    ("gradients", "layers"),
    [
        (make_gradients((2, 3), (3,)), [("float32", 2, 3, 0, 1, None)]),
        (make_gradients((2, 3), (4,)), [("float32", 2, 3, 0, None, None), ("float32", 1, 4, None, 1, None)]),
        (make_gradients((3,), (2, 3)), [("float32", 1, 3, None, 0, None), ("float32", 2, 3, 1, None, None)]),
        (make_gradients((2, 3), (3,), (3,)), [("float32", 2, 3, 0, 1, None), ("float32", 1, 3, None, 2, None)]),
        (
            make_gradients((2, 3), None, (3,)),
            [("float32", 2, 3, 0, None, None), ("float32", 1, 1, 1, None, None), ("float32", 1, 3, None, 2, None)],
        ),
        (make_gradients(None, (1,)), [("float32", 1, 1, 0, None, None), ("float32", 1, 1, None, 1, None)]),
        (make_gradients((), (3,)), [("float32", 0, 0, 0, None, ()), ("float32", 1, 3, None, 1, None)]),
        (make_gradients((1, 2, 3), (3,)), [("float32", 0, 0, 0, None, (1, 2, 3)), ("float32", 1, 3, None, 1, None)]),
        ([ROWS, *make_gradients((3,))], [("float32", 5, 3, 0, None, None), ("float32", 1, 3, None, 1, None)]),
        (
            [*make_gradients((2, 3)), *make_gradients((3,), dtype="float64")],
            [("float32", 2, 3, 0, None, None), ("float64", 1, 3, None, 1, None)],
        ),
    ],
)
def test_vector_becomes_the_bias_of_a_matrix_of_its_width_just_before(
    gradients: list[Gradient], layers: list[tuple[Any, ...]]
) -> None:
    assert [astuple(layer) for layer in build_linear_layers(gradients)] == layers


def test_dense_gradients_of_one_dtype_are_joined() -> None:
    arrays = [np.ones((1, 2), np.float32), np.zeros(1, np.float64), np.full(1, 2.0, np.float32)]
    gradients = [*(Gradient("g", Array.of(array)) for array in arrays), Gradient("none", None), ROWS]

    joined = join_by_dtype(gradients)

    assert [(part.dtype, part.numbers, part.values.tolist()) for part in joined] == [
        ("float32", (0, 2), [1.0, 1.0, 2.0]),
        ("float64", (1,), [0.0]),
    ]
    assert [part.values.dtype.name for part in joined] == ["float32", "float64"]


def test_parameter_after_a_step_from_zero_is_the_negated_gradient() -> None:
    nans = np.array([np.nan, -np.nan], np.float32)
    # The second parameter had no gradient and stayed zero. The third had none but changed: a result must show that.
    after = [np.array([-2.0, 0.0, *nans], np.float32), np.zeros(1, np.float32), np.array([0.25], np.float32)]

    first, second, third = negate_values(after, make_gradients((4,), None, None))

    assert first is not None
    assert first.numpy()[:2].tolist() == [2.0, 0.0]
    assert np.signbit(first.numpy()[2:]).tolist() == np.signbit(nans).tolist()
    assert second is None
    assert third is not None
    assert third.numpy().tolist() == [-0.25]
