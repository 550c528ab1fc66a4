"""Check the models of wrong answers: their exact facts, the causes that they name, and the choice between causes."""

from __future__ import annotations

import ast
import gc
import math
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hand_made import make_entry_point
from runs import find_causes, make_adapter

import gradclip_spec
from gradclip_adapters.contract import Array, Reply
from gradclip_conformance import causes
from gradclip_conformance.cases.build import make_case, make_tensor
from gradclip_conformance.cases.model import expect
from gradclip_conformance.causes import ranges
from gradclip_conformance.causes.attribution import Options, choose, explain_all
from gradclip_conformance.causes.facts import Seen, Tensor, raise_to_power
from gradclip_conformance.causes.forms import list_norms
from gradclip_conformance.causes.model import Explanation, Judged
from gradclip_conformance.causes.traits import Traits
from gradclip_conformance.causes.unusual import is_overwritten
from gradclip_conformance.causes.values import list_values
from gradclip_conformance.judge.judging import judge
from gradclip_conformance.judge.model import Context, Replied
from gradclip_conformance.oracle.arrays import decode
from gradclip_conformance.oracle.formats import FORMATS, decode_doubles, round_all
from gradclip_conformance.oracle.model import ExpectedArray
from gradclip_spec.rules.causes import load_causes


@pytest.mark.parametrize("exponent", [-1900, -301, 0, 7, 1203])
def test_power_of_any_size_is_exact_or_nearly_so(exponent: int) -> None:
    root = Fraction(3, 2) * Fraction(2) ** exponent

    assert raise_to_power(root, 6.0) == root**6
    assert abs(raise_to_power(root**2, 2.5) / root**5 - 1) < Fraction(1, 2**48)
    assert raise_to_power(Fraction(0), 2.5) == 0


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


@pytest.mark.parametrize("result", [5e-324, 1.0])
def test_factor_beyond_float64_is_compared_exactly(result: float) -> None:
    given, got = (Array.of(np.array([number])) for number in (5e-324, result))
    tensor = Tensor(0, given, got, decode(given.data, "float64"))

    # A model may give such a factor for subnormal gradients.
    assert not tensor.is_scaled_by(Fraction(2) ** 1100, 4.0)
    assert tensor.is_scaled_by(Fraction(2) ** 1074, 4.0) is (result == 1.0)


@pytest.mark.parametrize("is_known", [True, False])
def test_predicted_cause_stays_if_a_known_failure_names_it(is_known: bool) -> None:
    found = Explanation.predict("squares-underflow")
    cells = [Options([found], is_known=is_known), Options([]), Options([])]

    assert choose(cells) == [found if is_known else None, None, None]


@pytest.mark.parametrize(("count", "named"), [(10, 9), (11, 0)])
def test_cause_comes_before_a_symptom_that_its_cells_show_too(count: int, named: int) -> None:
    """A function that always returns zeros does so where squares overflow, too."""
    cause, symptom = Explanation.predict("squares-overflow"), Explanation.describe("gradients-zeroed")
    cells = [Options([cause, symptom] if number < 9 else [symptom]) for number in range(count)]

    assert choose(cells) == [cause] * named + [symptom] * (count - named)


def test_subnormal_mean_explains_a_small_difference() -> None:
    threshold, given = 2.276897430419922e-05, [np.float16([2.0**-6] * 2 + [0.0] * 688), np.float16([0.0, 2.0**-5])]
    # The error of this mean is a little above the error bound of the result.
    norms = [float(np.sqrt(np.mean(np.square(g), dtype=np.float32).astype(g.dtype))) for g in given]
    results = [(g * (threshold / np.float64(norm))).astype(g.dtype) for g, norm in zip(given, norms, strict=True)]
    gradients = [make_tensor(g.tolist(), "float16") for g in given]
    case = make_case("block-rms.scaled-above", "rare", "float16", gradients, {"clip_norm": threshold})
    context, answer = Context(case, make_entry_point(case.operation)), Replied(Reply(tuple(map(Array.of, results))))
    (found,) = explain_all([Judged(context, [answer], judge(context, [answer]))])

    assert found == Explanation.of("squares-underflow", effect="scaled")


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


def test_facts_about_long_calls_do_not_wait_for_the_garbage_collector() -> None:
    def sort(grads: Any, *, clip_norm: float) -> Any:
        clipped, _ = gradclip_spec.clip_by_global_norm(grads, clip_norm)
        return [np.sort(grad.ravel()).reshape(grad.shape) for grad in clipped]

    gc.collect()
    gc.disable()
    try:
        found = find_causes(make_adapter(sort), "global-norm.scaled-above")
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
    traits = Traits(barred={"float16": both, "float32": {*both, "sign-flipped"}})

    assert traits.list_barred(Seen(case, [one.array for one in gradients])) == {"coefficient-rounded"}


def test_bound_that_is_nearest_to_the_right_one_explains() -> None:
    # The element is one step above the bound. In bfloat16, the bound is 2**108, and in float16 it is infinite.
    bound = np.float32(float.fromhex("0x1.fffd4cp107"))
    above = np.nextafter(bound, np.float32(np.inf))
    options = {"max": float(bound), "min": float(-bound)}
    case = make_case("value.bounds", "hand-made", "float32", [make_tensor([float(above), -1.0], "float32")], options)
    found = list_values(Seen(case, [Array.of(np.array([above, -1.0], np.float32))]))
    dtypes = [dict(one.parameters)["dtype"] for one in found if one.cause == "value-bounds-rounded"]

    assert dtypes == ["float32", "bfloat16", "float16"]


def test_every_cause_has_a_model() -> None:
    trees = [ast.parse(path.read_text(encoding="utf-8")) for path in Path(causes.__file__).parent.glob("*.py")]
    texts = {node.value for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Constant)}

    assert texts >= set(load_causes())


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
