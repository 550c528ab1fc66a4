"""Check the findings about single parts of an answer: the norm, the passed gradients, repeated gradients and rows.

Each wrong function here is wrong in only one part of its answer, so exactly one cause explains its cells.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from runs import find_causes, make_adapter, run_rules

import gradclip_spec
from gradclip_adapters.arrays import refuse_unlisted
from gradclip_adapters.contract import About, Adapter, Array, Call, EntryPoint, Gradient, Reply, framework_call

Clip = Callable[..., Any]


def clip(grads: Sequence[Any], clip_norm: float) -> list[Any]:
    """Return right results in memory of their own. The reference returns an unchanged gradient itself."""
    clipped, _ = gradclip_spec.clip_by_global_norm(list(grads), clip_norm)
    return [None if gradient is None else gradient.copy() for gradient in clipped]


def write(grads: Sequence[Any], values: Sequence[Any]) -> None:
    """Write values into the gradients that were passed."""
    for gradient, value in zip(grads, values, strict=True):
        if gradient is not None:
            gradient[...] = value


def writes_results(grads: Any, *, clip_norm: float) -> Any:
    results = clip(grads, clip_norm)
    write(grads, results)
    return results


def writes_zeros(grads: Any, *, clip_norm: float) -> Any:
    results = clip(grads, clip_norm)
    write(grads, [0] * len(grads))
    return results


def writes_sevens(grads: Any, *, clip_norm: float) -> Any:
    results = clip(grads, clip_norm)
    write(grads, [7] * len(grads))
    return results


def writes_nothing(grads: Any, *, clip_norm: float) -> Any:
    return clip(grads, clip_norm)


def writes_twice_clipped(grads: Any, *, clip_norm: float) -> Any:
    """Write gradients to which the coefficient was applied twice."""
    results = clip(grads, clip_norm)
    norm = float(gradclip_spec.global_norm(grads))
    again = clip_norm / norm if norm > clip_norm else 1.0
    write(grads, [None if result is None else result * result.dtype.type(again) for result in results])
    return results


@pytest.mark.parametrize(
    ("function", "causes"),
    [
        (writes_results, {("inputs-changed", "results"): "form"}),
        (writes_sevens, {("inputs-changed", "other"): "form"}),
        (writes_nothing, {}),
    ],
)
def test_changed_inputs_of_a_function_that_must_not_write(function: Clip, causes: dict[Any, str]) -> None:
    assert find_causes(make_adapter(function, in_place=False), "global-norm.inputs-not-mutated") == causes


@pytest.mark.parametrize(
    ("function", "cause", "severity"),
    [
        (writes_nothing, ("not-written",), "unclipped"),
        (writes_zeros, ("gradients-zeroed",), "destroyed"),
        (writes_twice_clipped, ("scaled-twice",), "wrong"),
    ],
)
def test_gradients_that_an_in_place_function_has_not_written(function: Clip, cause: tuple[str], severity: str) -> None:
    found = find_causes(make_adapter(function, in_place=True), "global-norm.in-place-written")

    assert found.pop(cause) == severity
    # The same defect has other effects if a gradient holds NaN or infinity, or if the norm is zero.
    assert {name for name, *_ in found} <= {"unexplained", "nonfinite-silent"}
    assert not find_causes(make_adapter(writes_results, in_place=True), "global-norm.in-place-written")


def compute_in_float32(grads: Sequence[Any]) -> Any:
    with np.errstate(all="ignore"):
        return np.sqrt(sum((gradient * gradient).sum() for gradient in grads if gradient is not None))


@pytest.mark.parametrize(
    ("measure", "rule", "cause"),
    [
        (lambda norm, grads, clip_norm: norm * norm, "returned-norm", ("no-root",)),
        (lambda norm, grads, clip_norm: min(norm, clip_norm), "returned-norm", ("norm-after-clip",)),
        (lambda norm, grads, clip_norm: compute_in_float32(grads), "overflow-of-squares", ("squares-overflow", "norm")),
        (
            lambda norm, grads, clip_norm: compute_in_float32(grads),
            "underflow-of-squares",
            ("squares-underflow", "norm"),
        ),
    ],
    ids=["no-root", "after-clip", "overflow", "underflow"],
)
def test_wrong_norm_beside_right_gradients(measure: Callable[..., Any], rule: str, cause: tuple[str, ...]) -> None:
    def clip_with_norm(grads: Any, *, clip_norm: float) -> Any:
        clipped, norm = gradclip_spec.clip_by_global_norm(grads, clip_norm)
        return list(clipped), measure(float(norm), grads, clip_norm)

    assert set(find_causes(make_adapter(clip_with_norm), f"global-norm.{rule}")) == {cause}


def test_error_for_a_finite_norm_whose_squares_overflow() -> None:
    def refuse_infinite_norm(grads: Any, *, clip_norm: float, error_if_nonfinite: bool = False) -> Any:
        clipped, norm = gradclip_spec.clip_by_global_norm(grads, clip_norm)
        if error_if_nonfinite and not math.isfinite(compute_in_float32(grads)):
            raise ValueError("the norm is not finite")
        return list(clipped), norm

    found = find_causes(make_adapter(refuse_infinite_norm), "global-norm.error-if-nonfinite*")

    assert found == {("squares-overflow", "error"): "refused"}


class TakesRows(Adapter):
    """An adapter for a function that gets the stored rows of row-sparse gradients, and returns dense results."""

    def __init__(self, function: Clip, operation: str) -> None:
        self._function, self._operation = function, operation

    def about(self) -> About:
        """Return an invented version."""
        return About("rows", "1")

    def subjects(self) -> list[EntryPoint]:
        """Return the function."""
        return [EntryPoint("rows.clip", self._operation, ("float32", "float64"), ("functional", "sparse"))]

    def call(self, call: Call) -> Reply:
        """Clip the stored rows, and add those of one index to each other afterwards."""
        refuse_unlisted(call, self.subjects()[0])
        values = [gradient.array.numpy() for gradient in call.gradients if gradient.array is not None]
        results = self._function(values, **call.options)
        return Reply(tuple(map(self._make_dense, call.gradients, results)))

    def _make_dense(self, gradient: Gradient, values: Any) -> Array:
        if gradient.rows is None:
            return Array.of(values)
        dense = np.zeros((gradient.height or 0, *values.shape[1:]), values.dtype)
        np.add.at(dense, list(gradient.rows), values)
        return Array.of(dense)


def clip_values(grads: Any, max: float) -> list[Any]:
    return list(gradclip_spec.clip_by_value(grads, max))


@pytest.mark.parametrize(
    ("function", "operation", "name"),
    [(clip, "clip_by_global_norm", "global-norm"), (clip_values, "clip_by_value", "value")],
    ids=["global-norm", "value"],
)
def test_rows_that_are_clipped_before_they_are_added(function: Clip, operation: str, name: str) -> None:
    rules = f"{name}.sparse-rows", f"{name}.sparse-duplicate-rows"

    found = run_rules(TakesRows(function, operation), *rules)

    assert {cell.status for cell in found.cells if cell.rule == rules[0]} <= {"pass", "unsupported"}
    assert [(finding.cause, finding.severity) for finding in found.findings] == [("rows-clipped-apart", "wrong")]
    assert set(found.findings[0].rules) == {rules[1]}


def test_wrong_results_for_rows_are_not_blamed_on_the_addition() -> None:
    def double(grads: Any, clip_norm: float) -> list[Any]:
        return [2 * gradient for gradient in clip(grads, clip_norm)]

    found = find_causes(TakesRows(double, "clip_by_global_norm"), "global-norm.sparse-duplicate-rows")

    assert "rows-clipped-apart" not in {name for name, *_ in found}
    assert found


class IgnoresSingle(Adapter):
    """An adapter for a function that takes the rows of a single gradient for gradients, and finds none."""

    def about(self) -> About:
        """Return an invented version."""
        return About("lists", "1")

    def subjects(self) -> list[EntryPoint]:
        """Return the function."""
        return [
            EntryPoint(
                "lists.clip", "clip_by_global_norm", ("float16", "float32", "float64"), ("returns_norm", "single")
            )
        ]

    def call(self, call: Call) -> Reply:
        """Clip a list, and leave a single gradient as it is, with a norm of zero."""
        refuse_unlisted(call, self.subjects()[0])
        values = [gradient.array.numpy() for gradient in call.gradients if gradient.array is not None]
        if "as_single" in call.options:
            with framework_call():
                list(values[0])
            return Reply(tuple(map(Array.of, values)), norm=Array.of(np.zeros((), np.float32)))
        clipped, norm = gradclip_spec.clip_by_global_norm(values, call.options["clip_norm"])
        return Reply(tuple(map(Array.of, clipped)), norm=Array.of(np.asarray(norm)))


def test_single_gradient_that_is_ignored_is_not_clipped() -> None:
    # A mean of six squares would be below the threshold, too. But lists are clipped rightly.
    found = run_rules(IgnoresSingle(), "global-norm.single-tensor", "global-norm.scaled-above")

    assert [finding.cause for finding in found.findings] == ["not-clipped", "raises"]
    assert set(found.findings[0].rules) == {"global-norm.single-tensor"}
