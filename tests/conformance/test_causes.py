"""Check that the models name the cause of a wrong answer, and no cause for an answer that no model reproduces."""

from __future__ import annotations

import ast
import gc
import math
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from gradclip_adapters.contract import Array
from gradclip_adapters.operations import OPERATIONS
from gradclip_adapters.plain import PlainFunction
from gradclip_conformance import causes
from gradclip_conformance.cases.build import make_case, make_tensor
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.cases.model import expect
from gradclip_conformance.causes import findings, ranges
from gradclip_conformance.causes.attribution import explain_all
from gradclip_conformance.causes.choice import Options, choose
from gradclip_conformance.causes.facts import Seen, Tensor
from gradclip_conformance.causes.findings import list_asked_rules
from gradclip_conformance.causes.forms import list_norms
from gradclip_conformance.causes.model import Evidence, Explanation, Judged
from gradclip_conformance.causes.subject import Subject
from gradclip_conformance.causes.unusual import is_overwritten
from gradclip_conformance.causes.values import list_values
from gradclip_conformance.judge.judging import judge
from gradclip_conformance.judge.model import Context
from gradclip_conformance.oracle.arrays import decode
from gradclip_conformance.oracle.formats import FORMATS, decode_doubles, round_all
from gradclip_conformance.oracle.model import ExpectedArray
from gradclip_conformance.run.asking import ask_case
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import Selection, plan_cells
from gradclip_conformance.run.runner import ask_again, plan_rows, run_cell
from gradclip_spec.rules.causes import load_causes

Clip = Callable[..., Any]


def find_causes(
    fn: Clip, operation: str, rules: tuple[str, ...], dtype: str = "float32", rows: int = 0
) -> Counter[Any]:
    """Count the cells of these rules by the cause that explains them, with its parameters. None stands for no cause."""
    connection = InProcess(PlainFunction(fn, operation, dtypes=tuple(dtype.split("+"))))
    subjects, selection = connection.description.subjects, Selection(rules=rules)
    planned = [*plan_cells(subjects, list_all_cases(), selection), *plan_rows(subjects, selection, rows)]
    evidence: list[Evidence] = []
    cells = [run_cell(connection, one, 30, evidence=evidence) for one in planned if one.case.dtype == dtype]
    found = explain_all([one.judged for one in evidence], list_asked_rules(cells), partial(ask_again, connection, 30))
    return Counter(None if one is None else (one.cause, *(value for _, value in one.parameters)) for one in found)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_quick_comparison_agrees_with_the_exact_one(dtype: str) -> None:
    rng = np.random.default_rng(3)
    agreed = 0
    for bound in (0.0, 0.5, 0.53, 1.0, 4.0):
        for factor in (Fraction(1), Fraction(1, 3), Fraction(float(rng.random()) * 1e-5), Fraction(10**4, 7)):
            given = np.append(rng.standard_normal(20), [0, 1, np.finfo(dtype).tiny]).astype(dtype)
            right = (given.astype(np.longdouble) * np.longdouble(float(factor))).astype(dtype)
            # Move some results by an ulp or two.
            steps = rng.integers(-2, 3, given.size) if bound >= 1 else np.zeros(given.size)
            got = (right + steps.astype(dtype) * np.spacing(right)).astype(dtype)
            before, after = Array.of(given), Array.of(got)
            tensor = Tensor(0, before, after, decode(before.data, dtype))
            expected = ExpectedArray(tensor.exact, factor)
            surely = tensor.is_surely_scaled_by(factor, bound)
            assert not surely or tensor.is_near(expected, bound)
            agreed += surely == tensor.is_near(expected, bound)
    assert agreed >= 10


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_quick_comparison_of_products_agrees_with_the_exact_one(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    form, rng, decided = FORMATS[dtype], np.random.default_rng(5), Counter[bool]()
    smallest = float(form.smallest_subnormal)
    for number in range(400):
        # Numbers from the lower end of the range, and factors that lead into it and out of it.
        exponents = rng.integers(form.smallest_exponent, form.minimum_exponent + 8, 8)
        before = decode_doubles(round_all(np.ldexp(rng.standard_normal(8), exponents), dtype), dtype)
        first, second = (Fraction(float(number)) for number in np.ldexp(rng.random(2) + 0.5, rng.integers(-9, 10, 2)))
        # Beside such a factor, one step from a result of zero is too much by less than a rounding.
        second *= Fraction(1, 2**120) if number % 4 == 0 else 1
        steps = rng.choice([-1, 0, 0, 0, 0, 0, 0, 1], 8) * (rng.random() < 0.5) * (1 + (number % 8 == 1))
        wide = before.astype(np.longdouble) * np.longdouble(float(first))
        between = decode_doubles(round_all(wide.astype(np.float64), dtype), dtype)
        result = (between.astype(np.longdouble) * np.longdouble(float(second))).astype(np.float64)
        after = decode_doubles(round_all(result, dtype), dtype) + steps * smallest
        given, got = (Array(dtype, (8,), round_all(values, dtype)) for values in (before, after))
        tensor = Tensor(0, given, got, decode(given.data, dtype))

        quick = ranges._is_rounded_between(tensor, first, second, 0.5)
        with monkeypatch.context() as patch:
            patch.setattr(ranges, "_are_clearly_rounded_between", lambda _, pairs, *others: np.zeros(len(pairs), bool))
            assert ranges._is_rounded_between(tensor, first, second, 0.5) == quick
        decided[quick] += 1
    assert min(decided[False], decided[True]) >= 20


@pytest.mark.parametrize("factor", [Fraction(0), Fraction(1, 2)])
def test_quick_comparison_knows_the_ulp_of_zero(factor: Fraction) -> None:
    before = Array.of(np.array([1e-24 if not factor else 0.0, 1.0], np.float32))
    after = Array.of(np.array([1e-24, float(factor)], np.float32))
    tensor = Tensor(0, before, after, decode(before.data, "float32"))

    assert not tensor.is_surely_scaled_by(factor, 4.0)
    assert not tensor.is_scaled_by(factor, 4.0)


def measure_norm(grads: Any) -> float:
    """Return the global norm. Float64 holds the squares of float32."""
    return float(np.sqrt(sum(float((np.asarray(g, np.float64) ** 2).sum()) for g in grads)))


def scale(grads: Any, coefficient: float) -> list[Any]:
    return [(g.astype(np.float64) * coefficient).astype(g.dtype) for g in grads]


def add_eps(grads: Any, *, clip_norm: float) -> Any:
    return scale(grads, min(1.0, clip_norm / (measure_norm(grads) + 1e-6)))


def add_other_eps(grads: Any, *, clip_norm: float) -> Any:
    return scale(grads, min(1.0, clip_norm / (measure_norm(grads) + 0.0123)))


def add_eps_to_maximum(grads: Any, *, clip_norm: float) -> Any:
    return scale(grads, clip_norm / (max(measure_norm(grads), clip_norm) + 1e-3))


def flip_signs(grads: Any, *, clip_norm: float) -> Any:
    norm = measure_norm(grads)
    return scale(grads, -clip_norm / norm if norm > clip_norm else 1.0)


def clip_to_three_quarters(grads: Any, *, clip_norm: float) -> Any:
    norm = measure_norm(grads)
    return scale(grads, 0.75 * clip_norm / norm if norm > clip_norm else 1.0)


def halve_last_element(grads: Any, *, clip_norm: float) -> Any:
    """Clip with a defect for which there is no model."""
    clipped = forget_last_element(grads, clip_norm=clip_norm)
    for got in clipped:
        got.ravel()[-1] /= 2
    return clipped


def forget_last_element(grads: Any, *, clip_norm: float) -> Any:
    norm = measure_norm(grads)
    clipped = scale(grads, clip_norm / norm if norm > clip_norm else 1.0)
    for given, got in zip(grads, clipped, strict=True):
        if got.size > 1:
            got.ravel()[-1] = given.ravel()[-1]
    return clipped


def convert_norm_to_each_dtype(grads: Any, *, clip_norm: float) -> Any:
    """Divide each gradient by the norm in the gradient's own dtype, as Optax does."""
    with np.errstate(all="ignore"):
        wide = max((g.dtype for g in grads), key=lambda dtype: dtype.itemsize)
        norm = np.sqrt(sum(np.sum(np.square(g.astype(wide))) for g in grads))
        return [g if norm < clip_norm else (g / norm.astype(g.dtype)) * g.dtype.type(clip_norm) for g in grads]


ORDINARY = ("global-norm.scaled-above", "global-norm.one-norm-over-all", "global-norm.order-kept")


@pytest.mark.thorough(sample=4)
@pytest.mark.parametrize(
    ("fn", "cause"),
    [
        (add_eps, ("eps-in-coefficient", 1e-6)),
        (add_other_eps, ("eps-in-coefficient", 0.0123)),
        (add_eps_to_maximum, ("eps-beside-maximum", 1e-3)),
        (flip_signs, ("sign-flipped",)),
        (clip_to_three_quarters, ("multiple", 0.75)),
        (forget_last_element, ("not-clipped", "some")),
        (halve_last_element, None),
    ],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_wrong_answer_to_an_ordinary_call_gets_its_cause(fn: Clip, cause: tuple[Any, ...] | None) -> None:
    # float64 has enough digits to show the smallest epsilons.
    found = find_causes(fn, "clip_by_global_norm", ORDINARY, "float64")

    assert found.total() > 5
    # If the sum of squares of a call equals its root, the defect does not show.
    assert found.most_common(1)[0][0] == cause
    assert set(found) <= {cause, None}, found


@pytest.mark.parametrize("is_known", [True, False])
def test_doubtful_cause_stays_if_a_known_failure_names_it(is_known: bool) -> None:
    found = Explanation.of("squares-underflow")
    cells = [Options([found], is_known=is_known), Options([]), Options([])]

    assert choose(cells, {"squares-underflow"}) == [found if is_known else None, None, None]


SMALL_THRESHOLDS = tuple(
    f"global-norm.{rule}" for rule in ("zero-threshold", "minus-zero-threshold", "underflow-of-squares", "subnormal")
)


@pytest.mark.parametrize(("count", "named"), [(10, 9), (11, 0)])
def test_cause_comes_before_a_symptom_that_its_cells_show_too(count: int, named: int) -> None:
    """A function that always returns zeros does so where squares overflow, too."""
    cause, symptom = Explanation.of("squares-overflow"), Explanation.of("gradients-zeroed")
    cells = [Options([cause, symptom] if number < 9 else [symptom]) for number in range(count)]

    assert choose(cells) == [cause] * named + [symptom] * (count - named)


def scale_to(grads: Any, threshold: float) -> Any:
    norm = math.hypot(*(float(number) for g in grads for number in g.ravel()))
    return scale(grads, threshold / norm if norm > threshold else 1.0)


@pytest.mark.parametrize(
    ("replace", "number", "count"),
    [
        (lambda threshold: max(threshold, 1e-6), 1e-6, 5),
        (lambda threshold: max(threshold, 0.015), 0.015, 5),
        (lambda threshold: threshold or 1.0, 1.0, 2),
    ],
    ids=["smallest", "larger", "one-for-zero"],
)
def test_number_that_replaces_small_thresholds_is_found(
    replace: Callable[[float], float], number: float, count: int
) -> None:
    found = find_causes(
        lambda grads, *, clip_norm: scale_to(grads, replace(clip_norm)), "clip_by_global_norm", SMALL_THRESHOLDS
    )

    # The results for small gradients look as if their squares underflowed, and a norm of 1 like a right unit norm.
    assert set(found) == {("threshold-replaced", number)}
    assert found.total() >= count


def test_norm_beyond_the_range_replaces_no_threshold() -> None:
    # The norm of several of the largest numbers of float64 is no float64 number.
    def clip(grads: Any, *, clip_norm: float) -> Any:
        return [np.full_like(g, np.finfo(g.dtype).max) if g.size else g for g in grads]

    found = find_causes(
        clip, "clip_by_global_norm", ("global-norm.scaled-above", "global-norm.zero-threshold"), "float64"
    )

    assert found
    assert "threshold-replaced" not in {one[0] for one in found if one is not None}


@pytest.mark.parametrize(
    ("find_threshold", "cause"), [(lambda _: 1.0, "unit-norm"), (lambda threshold: 2 * threshold, "multiple")]
)
def test_other_thresholds_are_not_called_replaced(find_threshold: Callable[[float], float], cause: str) -> None:
    def clip(grads: Any, *, clip_norm: float) -> Any:
        norm = measure_norm(grads)
        return scale(grads, find_threshold(clip_norm) / norm if norm > clip_norm else 1.0)

    found = find_causes(clip, "clip_by_global_norm", ("global-norm.scaled-above", "global-norm.zero-threshold"))

    assert {one[0] for one in found if one is not None} == {cause}


def test_right_norm_refutes_an_underflow() -> None:
    def clip(grads: Any, *, clip_norm: float) -> Any:
        norm = math.hypot(*(float(number) for g in grads for number in g.ravel()))
        return (list(grads) if norm < 1e-12 else scale_to(grads, clip_norm)), norm

    found = find_causes(clip, "clip_by_global_norm", ("global-norm.scaled-above", "global-norm.underflow-of-squares"))

    # The square of a small norm is below the threshold, too. But ordinary calls are right, so the root is not left out.
    assert set(found) == {("not-clipped",)}


def test_subnormal_mean_explains_a_small_difference() -> None:
    def clip(grads: Any, *, clip_norm: float) -> Any:
        results = []
        for g in grads:
            mean = np.mean(np.square(g), dtype=np.float32).astype(g.dtype)
            norm = float(np.sqrt(mean))
            results.append((g.astype(np.float64) * (clip_norm / norm if norm > clip_norm else 1.0)).astype(g.dtype))
        return results

    # The error of this mean is a little above the error bound of the result.
    gradients = [make_tensor([2.0**-6] * 2 + [0.0] * 688, "float16"), make_tensor([0.0, 2.0**-5], "float16")]
    case = make_case("block-rms.scaled-above", "rare", "float16", gradients, {"clip_norm": 2.276897430419922e-05})
    connection = InProcess(PlainFunction(clip, case.operation, dtypes=("float16",)))
    (subject,) = connection.description.subjects
    answer = ask_case(connection, case, subject, 30)
    context = Context(case, subject)
    (found,) = explain_all([Judged(context, [answer], judge(context, [answer]))])

    assert found is not None
    assert (found.cause, dict(found.parameters)) == ("squares-underflow", {"effect": "scaled"})


def test_returned_norm_shows_gradients_that_are_left_out() -> None:
    def clip(grads: Any, *, clip_norm: float) -> Any:
        norm = measure_norm([g for g in grads if g.ndim < 2])
        return scale(grads, clip_norm / norm if norm > clip_norm else 1.0), norm

    found = find_causes(clip, "clip_by_global_norm", ("global-norm.scaled-above", "global-norm.one-norm-over-all"))

    assert found.most_common(1)[0][0] == ("gradients-left-out",)


def clip_all(grads: Any, *, clip_norm: float, need_clip: Any = None) -> Any:
    """Clip the included gradients rightly."""
    flags = [True] * len(grads) if need_clip is None else need_clip
    norm = measure_norm([g for g, flag in zip(grads, flags, strict=True) if flag and g is not None])
    coefficient = clip_norm / norm if norm > clip_norm else 1.0
    return [scale([g], coefficient)[0] if flag and g is not None else g for g, flag in zip(grads, flags, strict=True)]


def reverse_order(grads: Any, *, clip_norm: float) -> Any:
    return clip_all(grads, clip_norm=clip_norm)[::-1]


def sort_by_size(grads: Any, *, clip_norm: float) -> Any:
    return sorted(clip_all(grads, clip_norm=clip_norm), key=lambda one: -one.size)


def move_excluded_to_end(grads: Any, *, clip_norm: float, need_clip: Any) -> Any:
    results = clip_all(grads, clip_norm=clip_norm, need_clip=need_clip)
    return [results[i] for i in sorted(range(len(results)), key=lambda i: not need_clip[i])]


@pytest.mark.parametrize(
    ("fn", "rule"),
    [(reverse_order, "order-kept"), (sort_by_size, "order-kept"), (move_excluded_to_end, "excluded-untouched")],
    ids=lambda value: value.__name__ if callable(value) else "",
)
def test_results_in_another_order_are_recognised(fn: Clip, rule: str) -> None:
    found = find_causes(fn, "clip_by_global_norm", (f"global-norm.{rule}",))

    assert found
    assert set(found) == {("order-changed",)}


@pytest.mark.thorough(sample=0)
def test_wrong_results_in_another_order_are_not_called_right() -> None:
    def clip(grads: Any, *, clip_norm: float) -> Any:
        return [g / (2 + i) for i, g in enumerate(reverse_order(grads, clip_norm=clip_norm))]

    found = find_causes(clip, "clip_by_global_norm", ("global-norm.scaled-above", "global-norm.order-kept"))

    assert found
    assert ("order-changed",) not in found


def test_excluded_nan_in_the_norm_is_recognised() -> None:
    def clip(grads: Any, *, clip_norm: float, need_clip: Any) -> Any:
        with np.errstate(invalid="ignore"):
            norm = measure_norm(grads)
            coefficient = 1.0 if norm <= clip_norm else clip_norm / norm
            return [scale([g], coefficient)[0] if flag else g for g, flag in zip(grads, need_clip, strict=True)]

    found = find_causes(clip, "clip_by_global_norm", ("global-norm.excluded-not-counted",))

    assert found[("excluded-counted",)] > 2
    assert set(found) == {("excluded-counted",)}


@pytest.mark.parametrize("dtype", ["float16+float32", "float32+float64"])
def test_norm_that_a_narrower_dtype_cannot_hold_is_recognised(dtype: str) -> None:
    rules = ("global-norm.mixed-dtypes/beyond-*",)
    found = find_causes(convert_norm_to_each_dtype, "clip_by_global_norm", rules, dtype)

    assert found == {("norm-out-of-range", "zeros in the narrower dtype"): 2}


def test_threshold_that_only_a_narrower_dtype_does_not_hold_gets_its_cause() -> None:
    def clip(grads: Any, *, clip_norm: float) -> Any:
        norm = np.sqrt(sum(np.sum(g.astype(np.float64) ** 2) for g in grads))
        if norm <= clip_norm:
            return list(grads)
        with np.errstate(all="ignore"):
            return [((g / norm).astype(g.dtype) * g.dtype.type(clip_norm)).astype(g.dtype) for g in grads]

    found = find_causes(clip, "clip_by_global_norm", ("global-norm.mixed-dtypes",), "float16+float32")

    assert {one[:2] for one in found if one} == {("infinite-threshold-nan", "nan in the narrower dtype")}


def test_examples_that_are_lost_do_not_show_an_infinite_threshold() -> None:
    def clip(grads: Any, *, clip_norm: float) -> Any:
        return divide_each_example([grad[:2] for grad in grads], clip_norm=clip_norm)

    rules = ("per-example.combinations/*_infinite_*",)
    found = find_causes(clip, "clip_per_example", rules, rows=200)

    assert found
    assert "infinite-threshold-nan" not in {one[0] for one in found if one}


def test_norm_of_elements_in_a_narrower_dtype_is_named() -> None:
    def shrink(g: Any, threshold: float) -> Any:
        with np.errstate(all="ignore"):
            norm = measure_norm([g.astype(np.float32)])
        return g if norm <= threshold else scale([g], threshold / norm)[0]

    def clip(grads: Any, *, clip_norm: float) -> Any:
        return [None if g is None else shrink(g, clip_norm) for g in grads]

    rules = ("norm.combinations/s33_*", "norm.*flow-of-squares/*")
    found = find_causes(clip, "clip_by_norm", rules, "float64", rows=200)

    assert found[("narrower-arithmetic", "float32")] > 10
    assert set(found) == {("narrower-arithmetic", "float32")}


def test_powers_that_overflow_in_float64_do_not_show_a_narrower_dtype() -> None:
    def clip(grads: Any, *, clip_norm: float) -> Any:
        with np.errstate(all="ignore"):
            norm = math.sqrt(sum((g**2).sum() for g in grads if g is not None))
        factor = clip_norm / norm if norm > clip_norm else 1.0
        return [None if g is None else scale([g], factor)[0] for g in grads]

    rules = ("global-norm.overflow-of-squares", "global-norm.combinations-extreme/s9_*near-largest*")
    found = find_causes(clip, "clip_by_global_norm", rules, "float64", rows=200)

    assert {one[0] for one in found if one} == {"squares-overflow"}


@pytest.mark.parametrize("large", [findings.LARGE, 0])
def test_excluded_gradients_that_count_are_the_only_cause(large: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are named by the results, the returned norm and the error, and where no answer can be kept, too."""

    def clip(grads: Any, *, clip_norm: float, need_clip: Any, error_if_nonfinite: bool = False) -> Any:
        with np.errstate(all="ignore"):
            norm = measure_norm([g for g in grads if g is not None])
        if error_if_nonfinite and not math.isfinite(norm):
            raise RuntimeError
        factor = 1.0 if norm <= clip_norm else clip_norm / norm
        pairs = zip(grads, need_clip, strict=True)
        return [scale([g], factor)[0] if g is not None and included else g for g, included in pairs], norm

    monkeypatch.setattr(findings, "LARGE", large)
    themes = ("excluded-not-counted", "all-excluded", "error-if-nonfinite", "combinations/*_x-*")
    found = find_causes(clip, "clip_by_global_norm", tuple(f"global-norm.{one}" for one in themes), rows=30)

    assert found["excluded-counted",] > 20
    # A long sum is as far from the exact result as some of these norms.
    assert found["excluded-counted",] >= found.total() - 2


def test_average_over_more_elements_than_the_dtype_can_count_is_named() -> None:
    def shrink(g: Any, threshold: float) -> Any:
        with np.errstate(all="ignore"):
            norm = measure_norm([g]) / float(np.float64(max(g.size, 1)).astype(g.dtype))
        return g if norm <= threshold else scale([g], threshold / norm)[0]

    def clip(grads: Any, *, clip_norm: float) -> Any:
        return [None if g is None else shrink(g, clip_norm) for g in grads]

    rules = ("average-norm.combinations*/s262145_*", "average-norm.scaled-above")
    found = find_causes(clip, "clip_by_average_norm", rules, "float16", rows=100)

    assert set(found) == {("count-overflow",)}


@pytest.mark.parametrize("operation", ["clip_by_value", "clip_by_norm"])
def test_results_that_the_next_call_overwrites_are_named(operation: str) -> None:
    spaces: dict[Any, npt.NDArray[Any]] = {}

    def overwrite(results: list[Any]) -> list[Any]:
        for place, result in enumerate(results):
            if result is None:
                continue
            space = spaces.setdefault((place, result.shape, result.dtype), np.empty_like(result))
            space[...] = result
            results[place] = space
        return results

    def limit(g: Any, low: float, high: float) -> Any:
        return None if g is None else np.clip(g, np.asarray(low, g.dtype), np.asarray(high, g.dtype))

    def shrink(g: Any, threshold: float) -> Any:
        return None if g is None else scale([g], min(1.0, threshold / (measure_norm([g]) or 1.0)))[0]

    def clip_value(grads: Any, *, max: float, min: float) -> Any:
        return overwrite([limit(g, min, max) for g in grads])

    def clip_norm(grads: Any, *, clip_norm: float) -> Any:
        return overwrite([shrink(g, clip_norm) for g in grads])

    rules = (f"{OPERATIONS[operation].prefix}.combinations/*_followed*",)
    found = find_causes(clip_value if operation == "clip_by_value" else clip_norm, operation, rules, rows=80)

    assert found
    assert set(found) == {("memory-reused",)}


@pytest.mark.parametrize(
    ("dtype", "values", "returned", "cause"),
    [
        ("bfloat16", [2.0**-80] * 100, 0.0, "squares-underflow"),
        ("float16", [1.25 * 2.0**-12] * 32, 1.75 * 2.0**-10, "squares-underflow"),
        ("float16", [2.0**-14, *[3.5] * 1049], 113.5, "long-sum"),
    ],
)
def test_powers_that_underflow_explain_a_norm_only_if_they_matter(
    dtype: str, values: list[float], returned: float, cause: str
) -> None:
    case = make_case("global-norm.returned-norm", "any", dtype, [make_tensor(values, dtype)], {"clip_norm": 1.0})

    found = list_norms(case, make_tensor([returned], dtype, ()).array)

    assert [one.cause for one in found if one.cause in ("long-sum", "squares-underflow")] == [cause]


def test_call_that_includes_other_gradients_explains_no_result() -> None:
    included, excluded = make_tensor([3.0, 4.0], "float32"), make_tensor([6.0, 8.0], "float32", need_clip=False)
    options = {"clip_norm": 1.0, "followed": True}
    case = make_case("norm.combinations", "one-excluded", "float32", [included, excluded], options)

    assert not is_overwritten(Seen(case, [make_tensor([0.0, 0.0], "float32").array, excluded.array]))


def divide_each_example(grads: Any, *, clip_norm: float) -> Any:
    """Add the examples, each divided by the larger of 1 and norm / threshold. Zero divided by zero is NaN."""
    with np.errstate(divide="ignore", invalid="ignore"):
        norms = [np.float64(measure_norm([grad[number] for grad in grads])) for number in range(len(grads[0]))]
        parts = [np.maximum(norm / np.float64(clip_norm), 1.0) for norm in norms]
        return [sum(one / part for one, part in zip(grad, parts, strict=True)).astype(grad.dtype) for grad in grads]


def spoil_examples_of_other_norms(grads: Any, *, clip_norm: float) -> Any:
    """Add the examples, each NaN if the threshold is zero and its norm is not."""
    examples = [[grad[number] for grad in grads] for number in range(len(grads[0]))]
    clipped = [
        scale(one, math.nan if norm and not clip_norm else min(1.0, clip_norm / (norm or 1.0)))
        for one, norm in zip(examples, map(measure_norm, examples), strict=True)
    ]
    return [np.sum(parts, axis=0) for parts in zip(*clipped, strict=True)]


@pytest.mark.parametrize(
    ("fn", "is_named"),
    [(divide_each_example, True), (spoil_examples_of_other_norms, False)],
)
def test_nan_of_an_example_of_zeros_explains_the_sum_only_if_zeros_alone_become_nan(fn: Clip, is_named: bool) -> None:
    rules = ("per-example.zero-gradient-zero-threshold", "per-example.zero-threshold")

    found = find_causes(fn, "clip_per_example", rules)

    assert found
    assert set(found) == {("zero-over-zero",)} if is_named else ("zero-over-zero",) not in found


def test_cause_whose_own_rule_is_kept_is_not_named() -> None:
    def clip(grads: Any, *, clip_norm: float) -> Any:
        norm = measure_norm(grads)
        # Return zeros only for a norm beyond the range, so that no sum of squares overflows.
        return scale(grads, 0.0 if norm > 3.4e38 else min(1.0, clip_norm / (norm or 1.0)))

    found = find_causes(
        clip, "clip_by_global_norm", ("global-norm.norm-beyond-range", "global-norm.overflow-of-squares")
    )

    assert found
    assert ("squares-overflow", "zeros") not in found


def test_facts_about_long_calls_do_not_wait_for_the_garbage_collector() -> None:
    def clip(grads: Any, *, clip_norm: float) -> Any:
        return [np.sort(grad.ravel()).reshape(grad.shape) for grad in clip_all(grads, clip_norm=clip_norm)]

    gc.collect()
    gc.disable()
    try:
        found = find_causes(clip, "clip_by_global_norm", ("global-norm.scaled-above",))
        left = [one for one in gc.get_objects() if isinstance(one, Seen) and "groups" in vars(one) and one.is_long]
    finally:
        gc.enable()

    assert found
    assert not left


def test_cause_that_the_calls_of_each_dtype_refute_does_not_explain_a_mixed_list() -> None:
    gradients = [make_tensor([3.0], "float16"), make_tensor([4.0], "float32")]
    case = make_case("global-norm.mixed-dtypes", "hand-made", "float16+float32", gradients, {"clip_norm": 1.0})
    # Squares may overflow in a mixed list alone, where they are added in the dtype of the first gradient.
    both = {"coefficient-rounded", "squares-overflow"}
    subject = Subject(barred={"float16": both, "float32": {*both, "sign-flipped"}})

    assert subject.list_barred(Seen(case, [one.array for one in gradients])) == {"coefficient-rounded"}


def raise_always(grads: Any, *, max: float, min: float) -> Any:
    message = f"no kernel for {len(grads)} tensors"
    raise NotImplementedError(message)


def misread_bounds(grads: Any, *, max: float, min: float) -> Any:
    # The last bit of a large bound is wrong, as if its digits were added in float32.
    least, most = (np.nextafter(np.float32(one), np.float32(0)) if abs(one) > 1e9 else one for one in (min, max))
    return [np.clip(g, np.asarray(least, g.dtype), np.asarray(most, g.dtype)) for g in grads]


@pytest.mark.parametrize(
    ("fn", "cause"),
    [
        (misread_bounds, ("value-bounds-rounded", "float32")),
        (raise_always, ("raises", "NotImplementedError", "no kernel for # tensors")),
    ],
    ids=["misread", "raises"],
)
def test_wrong_clip_by_value_gets_its_cause(fn: Clip, cause: tuple[Any, ...]) -> None:
    found = find_causes(fn, "clip_by_value", ("value.bounds", "value.nan-stays"))

    assert found[cause] > 0
    assert set(found) <= {cause, None}


def test_bound_that_is_nearest_to_the_right_one_explains() -> None:
    # The element is one step above the bound. In bfloat16, the bound is 2**108, and in float16 it is infinite.
    bound = np.float32(float.fromhex("0x1.fffd4cp107"))
    above = np.nextafter(bound, np.float32(np.inf))
    options = {"max": float(bound), "min": float(-bound)}
    case = make_case("value.bounds", "hand-made", "float32", [make_tensor([float(above), -1.0], "float32")], options)
    found = list_values(Seen(case, [Array.of(np.array([above, -1.0], np.float32))]))
    dtypes = [dict(one.parameters)["dtype"] for one in found if one.cause == "value-bounds-rounded"]

    assert dtypes == ["float32", "bfloat16", "float16"]


def list_named_causes() -> set[str]:
    """Return the causes that the models name."""
    names = set()
    for path in Path(causes.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                names.add(node.value)
    return names & set(load_causes())


def test_every_cause_has_a_model() -> None:
    assert list_named_causes() == set(load_causes())


def test_norm_as_near_to_the_right_one_does_not_explain_a_returned_norm() -> None:
    # With the order infinity, the norm of a part of the elements may be the right one.
    gradients = [make_tensor([3.0, -4.0], "float64"), make_tensor([1.0], "float64")]
    options = {"clip_norm": 1.0, "norm_type": math.inf}
    case = make_case("global-norm.returned-norm", "hand-made", "float64", gradients, options, expect("returned-norm"))

    assert list_norms(case, Array.of(np.float64(4 + 2.0**-48))) == []
    assert [one.cause for one in list_norms(case, Array.of(np.float64(3)))] != []


@pytest.mark.parametrize(("threshold", "is_named"), [(5.0 + 2.0**-20, False), (6.0, True)])
def test_threshold_is_the_denominator_only_if_it_is_not_the_norm(threshold: float, is_named: bool) -> None:
    """An epsilon makes the second norm of a clip that is repeated a little smaller than the threshold."""
    gradients, options = [make_tensor([3.0, -4.0], "float32")], {"clip_norm": threshold}
    case = make_case("global-norm.returned-norm", "hand-made", "float32", gradients, options, expect("returned-norm"))
    found = list_norms(case, Array.of(np.float32(threshold)))

    assert (Explanation.of("denominator-returned") in found) == is_named
