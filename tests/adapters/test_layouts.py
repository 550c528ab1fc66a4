"""Check the memory layouts of a call's arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from gradclip_adapters.arrays import FEATURE_OF_LAYOUT, build_tensors, lay_out, list_parameters, make_array
from gradclip_adapters.contract import Array, EntryPoint, Gradient
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
