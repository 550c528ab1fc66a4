"""Fuzz the reference.

A call either raises a documented error and changes nothing, or agrees with a computation in long double.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from hypothesis import strategies as st

from ..reference_calls import ReferenceCall, check_result
from ..target import Target, require
from ..texts import draw_mostly, draw_texts

DTYPES = ("float16", "float32", "float64")
FUNCTIONS = ("clip_by_value", "clip_by_norm", "clip_by_global_norm", "global_norm")
_numbers = st.one_of(
    st.floats(width=16), st.floats(width=32), st.floats(), st.sampled_from((0.0, -0.0, 1.0, 3.0, 4.0, -5.0, 2.0**-24))
)
_arrays = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(DTYPES),
        "shape": st.lists(st.integers(0, 4), max_size=3),
        "values": st.lists(_numbers, min_size=1, max_size=6),
        "layout": st.sampled_from(("plain", "plain", "strided", "reversed", "fortran", "readonly", "broadcast")),
    }
)
_strange = st.sampled_from(
    (
        "none",
        "number",
        "text",
        "object",
        "masked",
        "int64",
        "complex128",
        "longdouble",
        "list",
        "matrix",
        "float",
        "set",
    )
)
_leaves = draw_mostly(_arrays, _strange)
_trees = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.fixed_dictionaries({"list": st.lists(inner, min_size=1, max_size=4)}),
        st.fixed_dictionaries({"tuple": st.lists(inner, min_size=1, max_size=3)}),
        st.fixed_dictionaries(
            {"dict": st.lists(st.tuples(draw_texts(), inner).map(list), max_size=3, unique_by=lambda pair: pair[0])}
        ),
        st.fixed_dictionaries({"generator": st.lists(inner, max_size=3)}),
    ),
    max_leaves=8,
)
_arguments = st.one_of(
    _numbers,
    st.floats(0.0, 100.0),
    st.integers(-2, 10**400),
    st.booleans(),
    st.none(),
    st.sampled_from(("text", "array", "longdouble", "fraction", "decimal", "complex")),
)
_flags = draw_mostly(
    st.sampled_from((None, "same", "function")), st.sampled_from(("raises", "strange", True, False)) | _trees
)

EXAMPLES = st.fixed_dictionaries(
    {
        "function": st.sampled_from(FUNCTIONS),
        "grads": _trees,
        "first": draw_mostly(st.floats(0.0, 100.0), _arguments),
        "options": st.fixed_dictionaries(
            {},
            optional={
                "min": draw_mostly(st.floats(-100.0, 0.0), _arguments),
                "norm_type": draw_mostly(st.sampled_from((1, 2, 2.0, 3, 0.5, math.inf, 100.0)), _arguments),
                "eps": draw_mostly(st.sampled_from((0.0, 1e-6)), _arguments),
                "error_if_nonfinite": draw_mostly(st.booleans(), _arguments),
                "inplace": draw_mostly(st.booleans(), _arguments),
            },
        ),
        "flags": _flags,
        "included": st.lists(st.booleans(), min_size=1, max_size=8),
        #: The number of lists, one in another, around the whole tree.
        "deep": st.sampled_from((0,) * 30 + (1, 2, 50, 2_000)),
    }
)


def check(example: Any) -> None:
    """Call a function, and compare its result with the formula in long double."""
    call = ReferenceCall(example)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            result = call.make()
        except call.documented as error:
            require(str(error), "an error without a text")
            require(call.is_unchanged(), f"an error that changed what was passed: {error!r}")
            return
    check_result(call, result)


TARGET = Target(EXAMPLES, check)
