"""Fuzz plain functions that return, raise and do anything. Each cell gets a verdict, and none blames the suite."""

from __future__ import annotations

import builtins
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from hypothesis import strategies as st

from gradclip_adapters.contract import OPERATIONS
from gradclip_adapters.plain import PlainFunction
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import Selection

from ..connections import check_run
from ..guards import enter_folder
from ..target import Target, require
from ..texts import draw_mostly, draw_texts

RULES = (
    "*.scaled-above/three-four-five/float32",
    "value.bounds/max-only/float32",
    "*.negative-threshold-refused/*/float32",
    "*.nan-not-silent/*/float32",
    "*.returned-norm/three-four-five/float32",
    "*.twice-is-once/*/float32",
    "*.splitting-and-joining/*/float32",
    "*.direction-kept/*/float32",
    "*.none-stays-none/*/float32",
    "*.dtype-kept/*/float32",
    "*.excluded-untouched/*/float32",
    "*.empty*/*/float32",
)
DTYPES = (
    "float16",
    "float32",
    "float64",
    "longdouble",
    "complex64",
    "int8",
    "uint64",
    "bool",
    "object",
    "U3",
    "S2",
    "M8[s]",
    "m8[ns]",
    "V4",
    "f4,i2",
)
ERRORS = ("ValueError", "KeyError", "SystemExit", "StopIteration", "MemoryError", "RecursionError", "GeneratorExit")

_shapes = st.lists(st.integers(0, 3), max_size=4) | st.sampled_from(([1] * 32, [0, 2**40], [1] * 64, [2**27]))
_values = st.recursive(
    st.one_of(
        st.fixed_dictionaries({"dtype": st.sampled_from(DTYPES), "shape": _shapes}),
        st.sampled_from(("given", "halved", "first", "none", "number", "nan", "huge", "evil", "class", "ellipsis")),
        st.fixed_dictionaries({"text": draw_texts()}),
    ),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"list": st.lists(inner, max_size=3)}),
        st.fixed_dictionaries({"tuple": st.lists(inner, max_size=3)}),
        st.fixed_dictionaries({"dict": st.lists(st.tuples(draw_texts(), inner).map(list), max_size=2)}),
        st.fixed_dictionaries({"generator": st.lists(inner, max_size=2)}),
    ),
    max_leaves=6,
)
EXAMPLES = st.fixed_dictionaries(
    {
        "operation": st.sampled_from(sorted(OPERATIONS)),
        "returns": _values,
        "norm": st.none() | _values,
        "does": st.lists(st.sampled_from(("zero", "nan", "resize", "append", "clear", "freeze", "warn")), max_size=2),
        "raises": draw_mostly(st.none(), st.tuples(st.sampled_from(ERRORS), draw_texts()).map(list)),
        #: The number of the first call that misbehaves.
        "from": st.sampled_from((0, 0, 0, 1, 2, 5)),
    }
)


class Evil:
    """An object whose methods all raise an exception whose text raises, too."""

    def __getattribute__(self, name: str) -> Any:
        raise Evil.Refusal

    class Refusal(Exception):
        """An exception without a text."""

        def __str__(self) -> str:
            """Raise."""
            raise ZeroDivisionError


def _make(what: Any, grads: list[Any]) -> Any:
    """Return the value that a description means."""
    match what:
        case {"dtype": dtype, "shape": shape}:
            # A broadcast array takes no memory, however large it is.
            return np.broadcast_to(np.zeros((), dtype), shape)
        case {"text": text}:
            return text
        case {"dict": pairs}:
            return {key: _make(value, grads) for key, value in pairs}
        case {"list": inner} | {"tuple": inner} | {"generator": inner}:
            made = [_make(each, grads) for each in inner]
            return made if "list" in what else tuple(made) if "tuple" in what else iter(made)
    return _NAMED[what](grads)


_NAMED: dict[str, Callable[[list[Any]], Any]] = {
    "given": lambda grads: grads,
    "halved": lambda grads: [None if grad is None else grad * grad.dtype.type(0.5) for grad in grads],
    "first": lambda grads: grads[0] if grads else None,
    "none": lambda grads: None,
    "number": lambda grads: 3,
    "nan": lambda grads: float("nan"),
    "huge": lambda grads: 10**400,
    "evil": lambda grads: Evil(),
    "class": lambda grads: Evil,
    "ellipsis": lambda grads: ...,
}


def _do(what: str, grads: list[Any]) -> None:
    """Change the passed list or its arrays."""
    arrays = [grad for grad in grads if grad is not None]
    if what == "append":
        grads.append(None)
    elif what == "clear":
        grads.clear()
    elif what == "warn":
        warnings.warn("\x1b[31m" * 1000, stacklevel=1)
    for array in arrays:
        if what in ("zero", "nan") and array.flags.writeable:
            array[...] = 0 if what == "zero" else np.nan
        elif what == "resize" and array.flags.owndata:
            array.resize(0, refcheck=False)
        elif what == "freeze":
            array.flags.writeable = False


def make_function(example: Any) -> Callable[..., Any]:
    """Return the function that an example describes."""
    calls = 0

    def clip(grads: list[Any], max: Any = None, min: Any = None, clip_norm: Any = None, need_clip: Any = None) -> Any:
        nonlocal calls
        calls += 1
        if calls <= example["from"]:
            return _NAMED["halved"](grads)
        for what in example["does"]:
            _do(what, grads)
        if example["raises"] is not None:
            kind, text = example["raises"]
            raise getattr(builtins, kind)(text)
        result = _make(example["returns"], grads)
        return result if example["norm"] is None else (result, _make(example["norm"], grads))

    return clip


def check(example: Any) -> None:
    """Run some cases of an operation on a function."""
    with enter_folder(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            adapter = PlainFunction(
                make_function(example), example["operation"], dtypes=("float32",), name="fuzzed:clip"
            )
        except (TypeError, ValueError) as error:
            require(str(error), "a function is refused without a reason")
            return
        run = check_run(InProcess(adapter), "fuzzed:clip", Selection(rules=RULES))
    for cell in run.cells:
        require(cell.status != "error", f"an error of the suite itself: {cell.detail[-1500:]}")


TARGET = Target(EXAMPLES, check)
