"""Judge answers, and read numbers, that a test writes by hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradclip_adapters.contract import Array, EntryPoint, Reply
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.cases.model import Case
from gradclip_conformance.judge.judging import judge
from gradclip_conformance.judge.model import Answer, Context, Replied, Verdict
from gradclip_conformance.oracle.arrays import decode
from gradclip_conformance.oracle.formats import encode
from gradclip_conformance.oracle.model import DyadicArray

CASES = {case.id: case for case in list_all_cases()}


def decode_exactly(*values: float) -> DyadicArray:
    """Return these values in the form that the oracles read, as an array of float64."""
    return decode(encode(values, "float64"), "float64")


def make_subject(operation: str = "clip_by_global_norm", *features: str, **members: Any) -> EntryPoint:
    """Return a subject of a made-up library."""
    return EntryPoint("library.clip", operation, ("float16", "bfloat16", "float32", "float64"), features, **members)


def find_status(case: str | Case, *answers: Answer | Sequence[Any], **options: Any) -> str:
    """Return the status of the verdict on answers to a case, as `judge_answers` takes them."""
    return judge_answers(case, *answers, **options).status


def judge_answers(
    case: str | Case, *answers: Answer | Sequence[Any], norm: float | None = None, **context: Any
) -> Verdict:
    """Return the verdict on answers to a case. A list of arrays, of the contract or of NumPy, stands for a reply."""
    asked = CASES[case] if isinstance(case, str) else case
    returned = None if norm is None else Array.of(np.array(norm, asked.dtype.partition("+")[0]))
    full = [
        Replied(Reply(tuple(Array.of(one) if isinstance(one, np.ndarray) else one for one in each), returned))
        if isinstance(each, list)
        else each
        for each in answers
    ]
    about = context.pop("subject", make_subject(asked.operation))
    return judge(Context(asked, about, **context), full)  # type: ignore[arg-type]
