"""Feed every expectation malformed replies. The judge must give a verdict and must not fail itself."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import pytest

from gradclip_adapters.contract import Array, EntryPoint, Reply
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.cases.model import Case, expect
from gradclip_conformance.judge.judging import EXPECTATIONS, follow_up, judge
from gradclip_conformance.judge.model import Answer, Claim, Context, Raised, Replied
from gradclip_conformance.oracle.formula import Formula
from gradclip_conformance.oracle.question import count_elements
from gradclip_conformance.sampler.rows import list_all_rows

Change = Callable[[Array], Array | None]
FEATURES = ((), ("optimizer",), ("flushes_subnormals",), ("error_if_nonfinite",))


def fill(shape: tuple[int, ...], dtype: str, value: float) -> Array:
    if dtype == "bfloat16":
        bits = np.full(shape, value, np.float32).view(np.uint32) >> np.uint32(16)
        return Array.of(bits.astype(np.uint16), dtype)
    return Array.of(np.full(shape, value, dtype))


def choose_other_dtype(dtype: str) -> str:
    return "float32" if dtype == "float64" else "float64"


#: Ways to change a gradient or the norm.
CHANGES: dict[str, Change] = {
    "the same": lambda array: array,
    "None": lambda array: None,
    "empty": lambda array: fill((0,), array.dtype, 0.0),
    "empty in another dtype": lambda array: fill((0,), choose_other_dtype(array.dtype), 0.0),
    "empty rows": lambda array: fill((0, 3), array.dtype, 0.0),
    "longer": lambda array: fill((math.prod(array.shape) + 1,), array.dtype, 1.0),
    "longer in another dtype": lambda array: fill((math.prod(array.shape) + 1,), choose_other_dtype(array.dtype), 1.0),
    "a number": lambda array: fill((), array.dtype, 1.0),
    "one more axis": lambda array: replace(array, shape=(*array.shape, 1)),
    "half as wide": lambda array: fill(array.shape, "float16", 1.0),
    "another dtype": lambda array: fill(array.shape, choose_other_dtype(array.dtype), 1.0),
    "brain floats": lambda array: fill(array.shape, "bfloat16", 1.0),
    "too large for the dtype": lambda array: fill(array.shape, "float64", 1e308),
    "integers": lambda array: fill(array.shape, "int64", 1),
    "no integers": lambda array: fill((0,), "int64", 1),
    "complex": lambda array: fill(array.shape, "complex64", 1),
    "booleans": lambda array: fill(array.shape, "bool", 1),
    "text": lambda array: Array.of(np.full(array.shape, "no number")),
    "objects": lambda array: Array("object", array.shape, b""),
    "NaN": lambda array: fill(array.shape, array.dtype, math.nan),
    "NaN in another dtype": lambda array: fill(array.shape, choose_other_dtype(array.dtype), math.nan),
    "infinity": lambda array: fill(array.shape, array.dtype, math.inf),
    "minus infinity in another dtype": lambda array: fill(array.shape, choose_other_dtype(array.dtype), -math.inf),
    "zeros": lambda array: fill(array.shape, array.dtype, 0.0),
}


def change_reply(case: Case, change: Change, where: Callable[[int], bool] = lambda place: True) -> Reply:
    """Return a reply to a case, in which the norm, some gradients and some inputs are changed."""
    arrays = tuple(
        change(gradient.array) if gradient.array is not None and where(place) else gradient.array
        for place, gradient in enumerate(case.gradients)
    )
    return Reply(arrays, norm=change(fill((), "float32", 1.0)), inputs=arrays)


def make_wrong_replies(case: Case) -> Iterator[tuple[str, Answer]]:
    """Yield answers of every wrong form to a case, each with a name."""
    last = len(case.gradients) - 1
    for name, change in CHANGES.items():
        yield f"all {name}", Replied(change_reply(case, change))
        yield f"first {name}", Replied(change_reply(case, change, lambda place: place == 0))
        yield f"last {name}", Replied(change_reply(case, change, lambda place: place == last))
    given = change_reply(case, CHANGES["the same"])
    extra = fill((2,), "float32", 1.0)
    yield "no gradients", Replied(replace(given, gradients=(), inputs=()))
    yield "one fewer", Replied(replace(given, gradients=given.gradients[:-1], inputs=given.gradients[:-1]))
    yield "one more", Replied(replace(given, gradients=(*given.gradients, extra), inputs=(*given.gradients, extra)))
    yield "one for None", Replied(replace(given, gradients=tuple(one or extra for one in given.gradients)))
    yield "inputs None", Replied(replace(given, inputs=tuple(None for _ in given.gradients)))
    yield "inputs missing", Replied(replace(given, inputs=None, norm=None))
    yield "malformed", Replied(Reply((), malformed="returned 'no list'"))
    yield "raised", Raised("ValueError", "no", inputs=None)
    yield "raised, inputs lost", Raised("ValueError", "no", inputs=())
    yield "raised, inputs changed", Raised("ValueError", "no", inputs=(extra,) * len(case.gradients))


def sample_cases() -> list[Case]:
    """Return one case for each expectation, set of parameters and operation. Prefer small ones."""
    chosen: dict[object, Case] = {}
    # A few small rows suffice, because all rows have the same expectations.
    rows = [row.make() for row in list_all_rows()[::10] if row.levels["size"] in {"s2", "s4"}]
    cases = [case for case in (*list_all_cases(), *rows) if case.dtype in ("float32", "bfloat16", "float16+float32")]
    # Empty cases come last, because few replies to them can be wrong.
    for case in sorted(cases, key=lambda case: count_elements(case) or 10**9):
        about = case.expectation
        kind = (about, case.operation) if about.name != "untouched" else (about.name, case.operation)
        special = any(gradient.array is None or gradient.rows is not None for gradient in case.gradients)
        chosen.setdefault((kind, special), case)
    # No case has this expectation: it is judged beside others, if several processes make the call.
    split = next(case for case in cases if case.rule == "value.shards-as-whole")
    return [*chosen.values(), replace(split, expectation=expect("processes-agree"))]


SAMPLED = sample_cases()


def test_every_expectation_is_sampled() -> None:
    assert {kind.name for kind in EXPECTATIONS} == {case.expectation.name for case in SAMPLED}


def make_wrong_answers(case: Case) -> Iterator[tuple[str, list[Answer]]]:
    """Yield the answers to all calls of a case, the first or the second of them of a wrong form, each with a name."""
    right = Replied(change_reply(case, CHANGES["the same"]))
    for name, wrong in make_wrong_replies(case):
        following = follow_up(case, wrong)
        yield name, [wrong] if following is None else [wrong, Replied(change_reply(following, CHANGES["the same"]))]
        if following is not None:
            yield f"{name}, twice", [wrong, wrong]
    if (following := follow_up(case, right)) is not None:
        for name, wrong in make_wrong_replies(following):
            yield f"second {name}", [right, wrong]


@pytest.mark.thorough(sample=6)
@pytest.mark.parametrize("case", SAMPLED, ids=lambda case: case.id)
def test_reply_of_any_form_gets_a_verdict(case: Case) -> None:
    claim = Claim("*", ("*",), Formula("coefficient", 1e-6), None, "adds 1e-6", "nowhere")
    for number, (name, answers) in enumerate(make_wrong_answers(case)):
        entry_point = EntryPoint("anyone", case.operation, ("float32",), FEATURES[number % len(FEATURES)])
        verdict = judge(Context(case, entry_point, (claim,)), answers)

        assert verdict.status != "error", f"{name}: {verdict.detail}"


@pytest.mark.parametrize(
    ("operation", "broken"),
    # The changed replies also have a norm, which is wrong.
    [("value", "value.dtype-kept"), ("global-norm", "global-norm.returned-norm")],
)
def test_empty_half_in_another_dtype_is_judged(operation: str, broken: str) -> None:
    case = next(case for case in list_all_cases() if case.id.startswith(f"{operation}.splitting-and-joining/"))
    single = replace(case, gradients=(replace(case.gradients[0], array=fill((1,), case.dtype, 0.5)),))
    first = Replied(change_reply(single, CHANGES["the same"]))
    following = follow_up(single, first)
    assert following is not None
    empty = [place for place, half in enumerate(following.gradients) if half.array and not half.array.data]
    second = Replied(change_reply(following, CHANGES["empty in another dtype"], lambda place: place in empty))

    assert empty
    verdict = judge(Context(single, EntryPoint("anyone", single.operation, ("float32",))), [first, second])
    assert verdict.breaks == broken
