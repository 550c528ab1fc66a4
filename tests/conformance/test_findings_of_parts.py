"""Check the findings about single parts of an answer: the norm, the order, the passed gradients, and rows.

Each wrong function here is wrong in only one part of its answer, so exactly one cause explains its cells.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Sequence
from itertools import count
from typing import Any

import numpy as np
import pytest
from mutants.abilities import UnusualCalls
from mutants.steps import ByGlobalNorm
from runs import find_causes, make_adapter, run_rules

import gradclip_spec
from gradclip_adapters.arrays import refuse_unlisted
from gradclip_adapters.contract import About, Adapter, Array, Call, EntryPoint, Gradient, Reply
from gradclip_adapters.operations import OPERATIONS
from gradclip_conformance import check_clipper
from gradclip_conformance.causes import findings

Clip = Callable[..., Any]


def clip(grads: Sequence[Any], clip_norm: float) -> list[Any]:
    """Return right results in memory of their own. The reference returns an unchanged gradient itself."""
    clipped, _ = gradclip_spec.clip_by_global_norm(list(grads), clip_norm)
    return [None if gradient is None else gradient.copy() for gradient in clipped]


def write(grads: Sequence[Any], values: Sequence[Any]) -> None:
    for gradient, value in zip(grads, values, strict=True):
        if gradient is not None:
            gradient[...] = value


def writes_results(grads: Any, *, clip_norm: float) -> Any:
    results = clip(grads, clip_norm)
    write(grads, results)
    return results


def make_writer(number: float) -> Clip:
    """Return a right function that writes a number into the gradients that were passed."""

    def function(grads: Any, *, clip_norm: float) -> Any:
        results = clip(grads, clip_norm)
        write(grads, [number] * len(grads))
        return results

    return function


def writes_twice_clipped(grads: Any, *, clip_norm: float) -> Any:
    results = clip(grads, clip_norm)
    norm = float(gradclip_spec.global_norm(grads))
    again = clip_norm / norm if norm > clip_norm else 1.0
    write(grads, [None if result is None else result * result.dtype.type(again) for result in results])
    return results


@pytest.mark.parametrize(
    ("function", "causes"),
    [
        (writes_results, {("inputs-changed", "results"): "form"}),
        (make_writer(7), {("inputs-changed", "other"): "form"}),
        (clip, {}),
    ],
)
def test_changed_inputs_of_a_function_that_must_not_write(function: Clip, causes: dict[Any, str]) -> None:
    assert find_causes(make_adapter(function, in_place=False), "global-norm.inputs-not-mutated") == causes


@pytest.mark.parametrize(
    ("function", "cause", "severity"),
    [
        (clip, ("not-written",), "unclipped"),
        (make_writer(0), ("gradients-zeroed",), "destroyed"),
        (writes_twice_clipped, ("scaled-twice",), "wrong"),
    ],
)
def test_gradients_that_an_in_place_function_has_not_written(function: Clip, cause: tuple[str], severity: str) -> None:
    found = find_causes(make_adapter(function, in_place=True), "global-norm.in-place-written")

    assert found.pop(cause) == severity
    # The same defect has other effects if a gradient holds NaN or infinity, or if the norm is zero.
    assert {name for name, *_ in found} <= {"unexplained", "nonfinite-silent"}
    assert not find_causes(make_adapter(writes_results, in_place=True), "global-norm.in-place-written")


def measure_norm(gradient: Any) -> float:
    return float(gradclip_spec.global_norm([gradient]))


def compute_in_float32(grads: Sequence[Any]) -> Any:
    with np.errstate(all="ignore"):
        return np.sqrt(sum((gradient * gradient).sum() for gradient in grads if gradient is not None))


@pytest.mark.parametrize(
    ("measure", "rule", "cause"),
    [
        (lambda grads, n, c: n * n, "returned-norm", ("no-root",)),
        (lambda grads, n, c: min(n, c), "returned-norm", ("norm-after-clip",)),
        (lambda grads, n, c: n / math.sqrt(max(1, sum(g.size for g in grads))), "returned-norm", ("mean-of-squares",)),
        (lambda grads, n, c: sum(float(np.abs(g).sum()) for g in grads), "returned-norm", ("other-order",)),
        # If each gradient has one element, the sum of their norms is also the norm of order 1. One name is enough.
        (lambda grads, n, c: sum(map(measure_norm, grads)), "returned-norm", ("sum-of-norms",)),
        (lambda grads, n, c: compute_in_float32(grads), "overflow-of-squares", ("squares-overflow", "norm")),
        (lambda grads, n, c: compute_in_float32(grads), "underflow-of-squares", ("squares-underflow", "norm")),
        (
            lambda grads, n, c: gradclip_spec.global_norm([g[np.isfinite(g)] for g in grads]),
            "returned-norm-nonfinite",
            ("nonfinite-silent", "norm"),
        ),
    ],
    ids=["no-root", "after-clip", "mean", "order", "sum-of-norms", "overflow", "underflow", "nonfinite"],
)
def test_wrong_norm_beside_right_gradients(measure: Callable[..., Any], rule: str, cause: tuple[str, ...]) -> None:
    def clip_with_norm(grads: Any, *, clip_norm: float) -> Any:
        clipped, norm = gradclip_spec.clip_by_global_norm(grads, clip_norm)
        return list(clipped), measure([g for g in grads if g is not None], float(norm), clip_norm)

    assert set(find_causes(make_adapter(clip_with_norm), f"global-norm.{rule}")) == {cause}


def reverse_order(grads: Any, *, clip_norm: float) -> Any:
    return clip(grads, clip_norm)[::-1]


def sort_by_size(grads: Any, *, clip_norm: float) -> Any:
    return sorted(clip(grads, clip_norm), key=lambda one: -one.size)


def move_excluded_to_end(grads: Any, *, clip_norm: float, need_clip: Any) -> Any:
    results, _ = gradclip_spec.clip_by_global_norm(list(grads), clip_norm, need_clip=list(need_clip))
    return [results[i] for i in sorted(range(len(results)), key=lambda i: not need_clip[i])]


def count_excluded_nan(grads: Any, *, clip_norm: float, need_clip: Any) -> Any:
    with np.errstate(invalid="ignore"):
        norm = float(gradclip_spec.global_norm(list(grads)))
        factor = 1.0 if norm <= clip_norm else clip_norm / norm
        return [(g * factor).astype(g.dtype) if flag else g for g, flag in zip(grads, need_clip, strict=True)]


def drop_none(grads: Any, *, clip_norm: float) -> Any:
    return [g for g in clip(grads, clip_norm) if g is not None]


def double_and_drop_none(grads: Any, *, clip_norm: float) -> Any:
    return [2 * g for g in drop_none(grads, clip_norm=clip_norm)]


def raise_always(grads: Any, *, clip_norm: float) -> Any:
    message = f"no kernel for {len(grads)} tensors"
    raise NotImplementedError(message)


@pytest.mark.parametrize(
    ("function", "rule", "cause"),
    [
        (reverse_order, "order-kept", ("order-changed",)),
        (sort_by_size, "order-kept", ("order-changed",)),
        (move_excluded_to_end, "excluded-untouched", ("order-changed",)),
        (count_excluded_nan, "excluded-not-counted", ("excluded-counted",)),
        (drop_none, "none-stays-none", ("count-changed", "none dropped")),
        (double_and_drop_none, "none-stays-none", ("count-changed",)),
        (raise_always, "zero-dimensional", ("raises", "NotImplementedError", "no kernel for # tensors")),
    ],
)
def test_changed_list_is_recognised(function: Clip, rule: str, cause: tuple[str, ...]) -> None:
    assert set(find_causes(make_adapter(function), f"global-norm.{rule}")) == {cause}


@pytest.mark.thorough(sample=0)
def test_wrong_results_in_another_order_are_not_called_right() -> None:
    def divide(grads: Any, *, clip_norm: float) -> Any:
        return [g / (2 + i) for i, g in enumerate(reverse_order(grads, clip_norm=clip_norm))]

    found = find_causes(make_adapter(divide), "global-norm.scaled-above", "global-norm.order-kept")

    assert found
    assert ("order-changed",) not in found


def test_returned_norm_shows_gradients_that_are_left_out() -> None:
    def clip_by_vectors(grads: Any, *, clip_norm: float) -> Any:
        norm = math.hypot(*(float(number) for g in grads if g.ndim < 2 for number in g.ravel()))
        factor = clip_norm / norm if norm > clip_norm else 1.0
        return [(g * np.float64(factor)).astype(g.dtype) for g in grads], norm

    run = run_rules(make_adapter(clip_by_vectors), "global-norm.scaled-above", "global-norm.one-norm-over-all")

    assert max(run.singles, key=lambda one: one.count).cause == "gradients-left-out"


def compare_largest(grads: Any, *, clip_norm: float) -> Any:
    is_above = any((np.abs(g) > clip_norm).any() or not np.isfinite(g).all() for g in grads)
    return clip(grads, clip_norm) if is_above else [g.copy() for g in grads]


def compare_with_one(grads: Any, *, clip_norm: float) -> Any:
    norm = gradclip_spec.clip_by_global_norm(list(grads), clip_norm)[1]
    return [g.copy() for g in grads] if norm <= 1 else clip(grads, clip_norm)


def exchange_bounds(grads: Any, *, min: float, max: float) -> Any:
    return [np.where(g < max, max, np.where(g > min, min, g)).astype(g.dtype) for g in grads]


@pytest.mark.parametrize(
    ("function", "operation", "rules", "cause", "misleading"),
    [
        (compare_largest, "clip_by_global_norm", "global-norm.*", "not-clipped", "elements-limited"),
        (compare_with_one, "clip_by_global_norm", "global-norm.*", "not-clipped", "threshold-rounded"),
        (exchange_bounds, "clip_by_value", "value.*", "value-bounds-exchanged", "order-changed"),
    ],
)
def test_few_cells_that_agree_by_chance_name_no_cause(
    function: Clip, operation: str, rules: str, cause: str, misleading: str
) -> None:
    causes = {one.cause for one in run_rules(make_adapter(function, operation, "float32"), rules).singles}

    assert cause in causes
    assert misleading not in causes


@pytest.mark.parametrize("operation", ["clip_by_norm", "clip_by_global_norm"])
def test_epsilon_of_a_fit_may_lie_beyond_the_narrower_range(operation: str) -> None:
    def forget_other_roots(grads: Any, *, clip_norm: float, norm_type: float = 2.0) -> Any:
        every = [np.abs(g.astype(np.longdouble)) for g in grads]
        if norm_type == math.inf:
            norm = max((np.max(each, initial=0) for each in every), default=0)
        else:
            norm = sum(np.sum(each**norm_type) for each in every) ** (0.5 if norm_type == 2 else 1)
        return [(g * (1 if norm <= clip_norm else clip_norm / norm)).astype(g.dtype) for g in grads]

    report = check_clipper(forget_other_roots, op=operation, rule="*.overflow*", isolated=False)

    assert [one["cause"] for one in report.findings] == ["no-root"]


@pytest.mark.parametrize("large", [findings.LARGE, 0])
def test_excluded_gradients_that_count_are_the_only_cause(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are named by the results, the returned norm and the error, and where no answer can be kept, too."""

    def count_all(grads: Any, *, clip_norm: float, need_clip: Any, error_if_nonfinite: bool = False) -> Any:
        with np.errstate(all="ignore"):
            norm = float(np.sqrt(sum(float((g.astype(np.float64) ** 2).sum()) for g in grads if g is not None)))
        if error_if_nonfinite and not math.isfinite(norm):
            raise RuntimeError
        factor = np.float64(1.0 if norm <= clip_norm else clip_norm / norm)
        pairs = zip(grads, need_clip, strict=True)
        return [(g * factor).astype(g.dtype) if g is not None and flag else g for g, flag in pairs], norm

    monkeypatch.setattr(findings, "LARGE", large)
    themes = ("excluded-not-counted", "all-excluded", "error-if-nonfinite", "combinations/*_x-*")
    run = run_rules(make_adapter(count_all), *(f"global-norm.{one}" for one in themes))
    counts = Counter({one.cause: one.count for one in run.singles})

    assert counts["excluded-counted"] > 20
    # A long sum is as far from the exact result as some of these norms.
    assert counts["excluded-counted"] >= counts.total() - 2


@pytest.mark.parametrize("operation", ["clip_by_value", "clip_by_norm"])
def test_results_that_the_next_call_overwrites_are_named(operation: str) -> None:
    spaces: dict[Any, Any] = {}

    def overwrite(place: int, result: Any) -> Any:
        if result is None:
            return None
        space = spaces.setdefault((place, result.shape, result.dtype), np.empty_like(result))
        space[...] = result
        return space

    def clip_value(grads: Any, *, max: float, min: float) -> Any:
        return list(map(overwrite, count(), gradclip_spec.clip_by_value(list(grads), max, min)))

    def clip_norm(grads: Any, *, clip_norm: float) -> Any:
        return list(map(overwrite, count(), gradclip_spec.clip_by_norm(list(grads), clip_norm)))

    function = clip_norm if OPERATIONS[operation].is_by_norm else clip_value
    rule = f"{OPERATIONS[operation].prefix}.combinations/*_followed*"

    assert set(find_causes(make_adapter(function, operation), rule)) == {("memory-reused",)}


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
        return About("rows", "1")

    def subjects(self) -> list[EntryPoint]:
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


class IgnoresSingle(ByGlobalNorm):
    """Take the rows of a single gradient for gradients, and find none."""

    def __call__(self, grads: Any, **options: Any) -> Any:
        if isinstance(grads, np.ndarray):
            # A number has no rows.
            len(grads)
            return [grads], 0.0
        return super().__call__(grads, **options)


def test_single_gradient_that_is_ignored_is_not_clipped() -> None:
    adapter = UnusualCalls(IgnoresSingle(), "clip_by_global_norm", ("float16", "float32", "float64"), None)

    # A mean of six squares would be below the threshold, too. But lists are clipped rightly.
    found = run_rules(adapter, *(f"global-norm.{name}" for name in ("single-tensor", "scaled-above", "identity-below")))

    assert [finding.cause for finding in found.findings] == ["not-clipped", "raises"]
    assert set(found.findings[0].rules) == {"global-norm.single-tensor"}
