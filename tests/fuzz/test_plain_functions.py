"""Fuzz plain functions that return, raise and do anything. Each cell gets a verdict, and none blames the suite."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from fuzzing.documents import RULES, check_run
from fuzzing.drawings import check_reason
from fuzzing.guards import FUZZ, isolate
from fuzzing.texts import draw_mostly, draw_texts
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from hypothesis.strategies import SearchStrategy

from gradclip_adapters.contract import OPERATIONS
from gradclip_adapters.plain import PlainFunction
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import Selection

#: A function of the gradients, such as one that makes a result.
Make = Callable[[list[Any]], Any]


class Evil:
    """An object whose methods all raise an exception whose text raises, too."""

    def __getattribute__(self, name: str) -> Any:
        raise Evil.Refusal

    class Refusal(Exception):
        """An exception without a text."""

        def __str__(self) -> str:
            raise ZeroDivisionError


def give(value: Any) -> Make:
    return lambda grads: value


def halve(grads: list[Any]) -> list[Any]:
    return [None if grad is None else grad * grad.dtype.type(0.5) for grad in grads]


def draw_arrays() -> SearchStrategy[Any]:
    """Draw arrays of zeros, broadcast, so that even the largest take no memory."""
    shapes = npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3)
    shapes |= st.sampled_from(((1,) * 32, (0, 2**40), (1,) * 64, (2**27,)))
    dtypes = npst.array_dtypes() | npst.scalar_dtypes() | st.sampled_from(("f2", "f4", "f8", "longdouble", "O", "V4"))
    return st.builds(lambda dtype, shape: np.broadcast_to(np.zeros((), dtype), shape), dtypes, shapes)


_results: SearchStrategy[Make] = st.recursive(
    st.sampled_from((lambda grads: grads, halve, lambda grads: next(iter(grads), None), lambda grads: Evil()))
    | st.sampled_from((None, 3, float("nan"), 10**400, Evil, ...)).map(give)
    | draw_texts().map(give)
    | draw_arrays().map(give),
    lambda inner: st.builds(
        lambda kind, makes: lambda grads: kind(make(grads) for make in makes),
        st.sampled_from((list, tuple, iter, lambda values: dict(enumerate(values)))),
        st.lists(inner, max_size=3),
    ),
    max_leaves=6,
)
_errors = st.builds(
    lambda kind, text: kind(text),
    st.sampled_from((ValueError, KeyError, SystemExit, StopIteration, MemoryError, RecursionError, GeneratorExit)),
    draw_texts(),
) | st.builds(Evil.Refusal)


def change_arguments(what: str, grads: list[Any]) -> None:
    if what == "append":
        grads.append(None)
    elif what == "clear":
        grads.clear()
    elif what == "warn":
        warnings.warn("\x1b[31m" * 1000, stacklevel=1)
    for array in grads:
        if what == "freeze" and array is not None:
            array.flags.writeable = False
        elif what == "resize" and array is not None and array.flags.owndata:
            array.resize(0, refcheck=False)
        elif what in ("zero", "nan") and array is not None and array.flags.writeable:
            array[...] = 0 if what == "zero" else np.nan


@pytest.mark.thorough(sample=0)
@FUZZ
@given(
    st.sampled_from(sorted(OPERATIONS)),
    _results,
    st.none() | _results,
    st.lists(st.sampled_from(("zero", "nan", "resize", "append", "clear", "freeze", "warn")), max_size=2),
    draw_mostly(st.none(), _errors),
    st.sampled_from((0, 0, 0, 1, 2, 5)),
)
@example("clip_by_global_norm", give(np.zeros((), "f2")), None, [], None, 2).via("a norm from the third call on")
@example("clip_by_norm", give(None), None, [], Evil.Refusal(), 0).via("an exception whose text raises")
@example(
    "clip_by_norm", give((np.zeros(0, "f4"),)), give(np.broadcast_to(np.longdouble(0), (2**27,))), ["zero"], None, 1
).via("hung with a norm of gigabytes")
@example(
    "clip_by_norm",
    give({}),
    give([tuple(np.broadcast_to(np.zeros((), kind), (2**27,)) for kind in ("M8[s]", "u8"))]),
    ["zero"],
    None,
    0,
).via("NumPy copied a list of huge arrays before its size was looked at")
def test_function_that_does_anything_gets_verdicts(
    operation: str, result: Make, norm: Make | None, does: list[str], error: BaseException | None, first_bad: int
) -> None:
    numbers = itertools.count()

    def clip(grads: list[Any], **options: Any) -> Any:
        if next(numbers) < first_bad:
            return halve(grads)
        for what in does:
            change_arguments(what, grads)
        if error is not None:
            raise error
        return result(grads) if norm is None else (result(grads), norm(grads))

    with isolate(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            adapter = PlainFunction(clip, operation, dtypes=("float32",), name="fuzzed:clip")
        except (TypeError, ValueError) as refusal:
            check_reason(str(refusal))
            return
        run = check_run(InProcess(adapter), "fuzzed:clip", Selection(rules=(*RULES, "*.empty*/*/float32")))
    assert not [cell.detail for cell in run.cells if cell.status == "error"]
