"""Judge answers, and read numbers, that a test writes by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradclip_adapters.contract import Array, EntryPoint, Reply
from gradclip_conformance.cases.build import make_case, make_tensor
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.cases.model import Case, Expect
from gradclip_conformance.judge.judging import judge
from gradclip_conformance.judge.model import Answer, Context, Replied, Verdict
from gradclip_conformance.oracle.arrays import decode
from gradclip_conformance.oracle.formats import encode
from gradclip_conformance.oracle.model import DyadicArray

CASES = {case.id: case for case in list_all_cases()}

#: A list of numbers stands for an array of the dtype of its gradient.
Result = Array | np.ndarray[Any, Any] | Sequence[float] | None


def decode_exactly(*values: float) -> DyadicArray:
    """Return these values in the form that the oracles read, as an array of float64."""
    return decode(encode(values, "float64"), "float64")


def make_array(values: Sequence[float], dtype: str = "float32", shape: tuple[int, ...] | None = None) -> Array:
    """Return an array of these values. Without a shape, it has one dimension."""
    return Array(dtype, (len(values),) if shape is None else shape, encode(values, dtype))


def build_case(
    expectation: Expect,
    *tensors: Sequence[float] | None,
    dtype: str = "float32",
    rule: str = "global-norm.scaled-above",
    excluded: Sequence[int] = (),
    **options: float,
) -> Case:
    """Return a case of one-dimensional gradients."""
    gradients = [make_tensor(values, dtype, need_clip=i not in excluded) for i, values in enumerate(tensors)]
    return make_case(rule, "hand-made", dtype, gradients, options, expectation)


def make_entry_point(operation: str = "clip_by_global_norm", *features: str, **members: Any) -> EntryPoint:
    """Return an entry point of a made-up library."""
    return EntryPoint("library.clip", operation, ("float16", "bfloat16", "float32", "float64"), features, **members)


def make_reply(
    case: Case, results: Sequence[Result], inputs: Sequence[Result] | None = None, **members: Any
) -> Replied:
    """Return a reply to a case, with other members of the reply."""
    after = None if inputs is None else _make_arrays(case, inputs)
    return Replied(Reply(_make_arrays(case, results), inputs=after, **members))


def _make_arrays(case: Case, results: Sequence[Result]) -> tuple[Array | None, ...]:
    dtypes = [gradient.array.dtype if gradient.array else case.dtype for gradient in case.gradients]
    return tuple(
        Array.of(one) if isinstance(one, np.ndarray) else make_array(one, dtypes[i]) if isinstance(one, list) else one
        for i, one in enumerate(results)
    )


def find_status(case: str | Case, *answers: Answer | Sequence[Result], **options: Any) -> str:
    """Return the status of the verdict on answers to a case, as `judge_answers` takes them."""
    return judge_answers(case, *answers, **options).status


def judge_answers(
    case: str | Case,
    *answers: Answer | Sequence[Result],
    norm: float | None = None,
    features: Sequence[str] = (),
    **context: Any,
) -> Verdict:
    """Return the verdict on answers to a case. A list of results stands for a reply."""
    asked = CASES[case] if isinstance(case, str) else case
    returned = None if norm is None else Array.of(np.array(norm, asked.dtype.partition("+")[0]))
    full = [make_reply(asked, each, norm=returned) if isinstance(each, list) else each for each in answers]
    about = context.pop("entry_point", make_entry_point(asked.operation, *features))
    return judge(Context(asked, about, **context), full)  # type: ignore[arg-type]
