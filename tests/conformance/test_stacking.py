"""Check how gradients of examples and of units are stacked for a call, and how the answers are taken apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest

from gradclip_adapters.contract import Array, Gradient, Reply
from gradclip_conformance.cases.build import make_tensor
from gradclip_conformance.cases.stacking import (
    NO_EXAMPLE,
    regroup_units,
    split_inputs,
    split_sums,
    split_unit_inputs,
    split_units,
    stack_examples,
    stack_units,
)
from gradclip_conformance.cases.themes.examples import make_cases
from gradclip_conformance.oracle.arrays import decode
from gradclip_conformance.oracle.integers import compute_norm


def make_examples() -> list[Gradient]:
    first = [make_tensor([3.0, -0.0], "float32"), make_tensor([0.0], "float32")]
    second = [make_tensor([0.0, -4.0], "float32"), make_tensor([2.0], "float32")]
    return [*first, *(replace(one, group=1) for one in second)]


def read_values(arrays: tuple[Array | None, ...]) -> list[list[float]]:
    return [array.numpy().tolist() for array in arrays if array is not None]


def test_examples_are_stacked_and_taken_apart() -> None:
    examples = make_examples()
    passed = stack_examples(examples)
    sums = [np.array([1.5, -1.0], np.float32), np.array([0.5], np.float32)]
    reply = split_sums(examples, Reply(tuple(map(Array.of, sums)), inputs=tuple(one.array for one in passed)))

    assert [one.array.shape for one in passed if one.array is not None] == [(2, 2), (2, 1)]
    assert read_values(tuple(one.array for one in passed)) == [[[3.0, -0.0], [0.0, -4.0]], [[0.0], [2.0]]]
    assert read_values(reply.gradients) == [[1.5, 0.0], [0.0], [0.0, -1.0], [0.5]]
    assert reply.inputs == tuple(one.array for one in examples)


def test_batch_without_examples_has_a_sum() -> None:
    nothing = [replace(make_tensor([0.0] * size, "float32"), group=NO_EXAMPLE) for size in (3, 2)]
    passed = stack_examples(nothing)
    inputs = tuple(one.array for one in passed)
    sums = tuple(Array.of(np.full(size, 0.5, np.float32)) for size in (3, 2))

    reply = split_sums(nothing, Reply(sums, inputs=inputs))

    assert [one.array.shape for one in passed if one.array is not None] == [(0, 3), (0, 2)]
    # Whatever comes back is the sum.
    assert reply.gradients == sums
    assert split_inputs(nothing, inputs) == tuple(one.array for one in nothing)
    assert split_sums(nothing, Reply(inputs)).malformed is not None


@pytest.mark.parametrize("shapes", [[(2,)], [(2, 2), (1,)], [(2,), ()]])
def test_sums_of_another_form_are_malformed(shapes: list[tuple[int, ...]]) -> None:
    reply = split_sums(make_examples(), Reply(tuple(Array.of(np.zeros(shape, np.float32)) for shape in shapes)))

    assert reply.malformed is not None
    assert reply.gradients == ()


def test_inputs_of_another_form_are_not_taken_apart() -> None:
    assert split_inputs(make_examples(), [Array.of(np.zeros((3, 2), np.float32)), None]) is None
    assert split_inputs(make_examples(), None) is None


def are_separable(gradients: Sequence[Gradient]) -> bool:
    """Return whether several examples that have an element have the same one and the same norm, in equal parts."""
    groups = sorted({one.group for one in gradients})
    examples = {group: [one.array for one in gradients if one.group == group] for group in groups}
    norms: dict[int, object] = {}
    for group, arrays in examples.items():
        tensors = [decode(array.data, array.dtype) for array in arrays if array is not None]
        # Examples that are not finite must be equal.
        norms[group] = compute_norm(tensors) if all(one.is_finite for one in tensors) else tuple(arrays)
    distinct = list(dict.fromkeys(norms.values()))
    places = np.array([[distinct.index(norms[group])] for group in groups])
    for arrays in zip(*examples.values(), strict=True):
        # A -0.0 counts as zero.
        every = np.array([(array.bits() * (array.bits() << 1 != 0)).ravel() for array in arrays if array is not None])
        having = every != 0
        counts = having.sum(axis=0)
        if (counts & (counts - 1)).any():
            return False
        for values in (every, np.broadcast_to(places, every.shape)):
            if (having & (values != np.where(having, values, 0).max(axis=0))).any():
                return False
    return True


def test_each_element_of_a_case_belongs_to_examples_in_equal_parts() -> None:
    assert all(are_separable(case.gradients) for case in make_cases())
    assert not are_separable([make_tensor([1.0], "float32"), replace(make_tensor([2.0], "float32"), group=1)])


def test_element_of_several_examples_is_divided() -> None:
    examples = [make_tensor([3.0, 4.0, 0.0], "float32"), make_tensor([3.0, 0.0, 4.0], "float32")]
    sums = Reply((Array.of(np.array([3.0, 2.0, 2.0], np.float32)),))
    reply = split_sums([examples[0], replace(examples[1], group=1)], sums)

    assert read_values(reply.gradients) == [[1.5, 2.0, 0.0], [1.5, 0.0, 2.0]]


def make_unit(values: list[float] | None, parameter: list[float], group: int) -> Gradient:
    unit = make_tensor(values, "float32")
    return replace(unit, parameter=make_tensor(parameter, "float32").array, group=group)


def make_units() -> list[Gradient]:
    """Return a matrix of two units, a tensor without a gradient, and a vector."""
    return [
        make_unit([1.0, -0.0, 3.0], [1.0, 1.0, 1.0], 0),
        make_unit([4.0, 5.0, 6.0], [2.0, 2.0, 2.0], 0),
        make_unit(None, [1.0], 1),
        make_unit([7.0, 8.0], [3.0, 3.0], 2),
    ]


@pytest.mark.parametrize("last", [False, True])
def test_units_are_stacked_and_taken_apart(last: bool) -> None:
    units = make_units()
    matrix, nothing, vector = stack_units(units, last=last)
    passed = [matrix.array, nothing.array, vector.array]
    answer = Reply((matrix.array, None, vector.array), inputs=tuple(passed), same_object=(False, True, True))
    reply = split_units(units, answer, last=last)

    assert [one and one.shape for one in passed] == [(3, 2) if last else (2, 3), None, (2,)]
    assert matrix.parameter is not None
    assert matrix.parameter.numpy().tolist() == ([[1.0, 2.0]] * 3 if last else [[1.0] * 3, [2.0] * 3])
    assert vector.parameter == units[3].parameter
    assert reply.gradients == reply.inputs == tuple(one.array for one in units)
    assert reply.same_object == (False, False, True, True)


@pytest.mark.parametrize("last", [False, True])
def test_only_row_of_a_matrix_is_no_vector(last: bool) -> None:
    row = replace(make_unit([1.0, -0.0, 3.0], [1.0, 1.0, 1.0], 0), height=1)
    (matrix,) = stack_units([row], last=last)
    reply = split_units([row], Reply((matrix.array,), inputs=(matrix.array,)), last=last)

    assert matrix.array is not None
    assert matrix.height is None
    assert matrix.array.shape == ((3, 1) if last else (1, 3))
    assert reply.gradients == reply.inputs == (row.array,)
    assert split_units([row], Reply((row.array,)), last=last).malformed is not None


def test_tensors_of_another_form_are_malformed() -> None:
    units = make_units()
    vector = units[3].array
    for results in (
        (Array.of(np.zeros((3, 3))), None, vector),
        (None, None, vector),
        (vector,),
    ):
        reply = split_units(units, Reply(results), last=False)

        assert reply.malformed is not None
        assert reply.gradients == ()
        assert split_unit_inputs(units, results, last=False) is None
    # The judge itself compares the numbers of gradients, if each tensor is one unit.
    assert split_units(units[2:], Reply((vector,)), last=False) == Reply((vector,))


@pytest.mark.parametrize("is_relative", [True, False])
def test_tensor_is_divided_in_other_ways(is_relative: bool) -> None:
    units = [unit if is_relative else replace(unit, parameter=None) for unit in make_units()[:2]]
    arrays = [unit.array for unit in units if unit.array is not None]
    found = [[one.numpy().tolist() for one in results] for _, results in regroup_units(units, arrays)]

    assert [[[1.0, 0.0, 3.0], [4.0, 5.0, 6.0]]] in found
    assert [[1.0], [0.0], [3.0], [4.0], [5.0], [6.0]] in found
    assert [[1.0, 4.0], [0.0, 5.0], [3.0, 6.0]] in found
    for gradients, results in regroup_units(units, arrays):
        assert [unit.array for unit in gradients] == results
        assert len({unit.group for unit in gradients}) == len(gradients)
        assert all((unit.parameter is not None) == is_relative for unit in gradients)
