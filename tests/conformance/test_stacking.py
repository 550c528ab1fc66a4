"""Check how gradients of examples are stacked for a call, and how their sums are taken apart."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradclip_adapters.contract import Array, Gradient, Reply
from gradclip_conformance.cases.build import make_tensor
from gradclip_conformance.cases.operations.examples import make_cases
from gradclip_conformance.cases.stacking import has_disjoint_examples, split_inputs, split_sums, stack_examples


def make_examples() -> list[Gradient]:
    """Return two examples of two tensors."""
    first = [make_tensor([3.0, -0.0], "float32"), make_tensor([0.0], "float32")]
    second = [make_tensor([0.0, -4.0], "float32"), make_tensor([2.0], "float32")]
    return [*first, *(replace(one, group=1) for one in second)]


def read_values(arrays: tuple[Array | None, ...]) -> list[list[float]]:
    """Return the elements of each array."""
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


@pytest.mark.parametrize("shapes", [[(2,)], [(2, 2), (1,)], [(2,), ()]])
def test_sums_of_another_form_are_malformed(shapes: list[tuple[int, ...]]) -> None:
    reply = split_sums(make_examples(), Reply(tuple(Array.of(np.zeros(shape, np.float32)) for shape in shapes)))

    assert reply.malformed is not None
    assert reply.gradients == ()


def test_inputs_of_another_form_are_not_taken_apart() -> None:
    assert split_inputs(make_examples(), [Array.of(np.zeros((3, 2), np.float32)), None]) is None
    assert split_inputs(make_examples(), None) is None


def test_each_element_of_a_case_belongs_to_one_example() -> None:
    assert all(has_disjoint_examples(case.gradients) for case in make_cases())
    assert not has_disjoint_examples([make_tensor([1.0], "float32"), replace(make_tensor([2.0], "float32"), group=1)])
