"""Check single answers of adapters: the texts of errors that frameworks raise, and the results of rare calls.

A row needs its framework. These tests also run in the own Python of an old framework, which may be 3.7.
"""

from __future__ import annotations

import functools
import os
import re
import warnings
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradclip_adapters.contract import Adapter, Array, Call, EntryPoint, FrameworkRaised, Gradient
from gradclip_adapters.operations import OPERATIONS
from gradclip_adapters.registry import MissingFramework, resolve


def make_gradient(values: Any, dtype: str = "float32", **changes: Any) -> Gradient:
    return Gradient("g", Array.of(np.array(values, dtype)), **changes)


GRADIENT = make_gradient([3.0, -4.0])
EMPTY = make_gradient([])
NONE = Gradient("none", None)
EXCLUDED = replace(GRADIENT, need_clip=False)
UNKNOWN = {"eps": 1.0}
#: Rows 1 and 3 of four.
ROWS = make_gradient([[3.0], [4.0]], rows=(1, 3), height=4)

#: Adapters, words in the names of entry points, gradients and options of a call, and a pattern that the text of the
#: error matches as a whole. A text holds no folder, time or stack, which differ between runs.
ERRORS: tuple[tuple[str, str, tuple[Gradient, ...], dict[str, Any], str], ...] = (
    ("jittor", "", (GRADIENT,), {"threshold_as": "text"}, r"(?!.*Failed reason).*Wrong inputs arguments.*"),
    ("megengine", "clip_grad_norm", (EMPTY,), {"norm_type": float("inf")}, ".*async error.*"),
    (
        "megengine",
        "clip_grad_norm",
        (GRADIENT,),
        {"threshold_as": "numpy-float64"},
        r".*unsupported numpy dtype <class 'numpy.float64'>",
    ),
    # Without its own guard, the adapter takes the error of a kernel for that of another call by chance.
    *(("mindspore", "nn.ClipByNorm", (EMPTY,) * 5, {}, r".*bad input size\."),) * 10,
    ("mindspore", "ops.clip_by_norm", (), {}, r".*must be greater than or equal to 1, but got 0\."),
    ("mxnet", "clip_global_norm", (make_gradient([3.0], "float64"),) * 2, {}, r"(?!\[\d)(?!.*\[bt\]).*float64.*"),
    *(
        ("onnxruntime-training", "Inplace", (make_gradient([1.0], dtype),), {}, ".*Tensor type mismatch.*")
        for dtype in ("float16", "float64")
    ),
    ("onnxruntime-training", "", (GRADIENT,), UNKNOWN, ".*"),
    ("opacus", "DPOptimizer", (make_gradient(np.ones((3, 2))),), {"clip_norm": float("inf")}, ".*found std.*"),
    *(
        ("paddle", word, (GRADIENT,), UNKNOWN, ".*unexpected keyword argument 'eps'.*")
        for word in ("paddle.nn.ClipGradBy", "utils", "clip_by_norm", "paddle.clip", "clip_", "set_gradient_clip")
    ),
    ("paddle", "set_gradient_clip", (EXCLUDED, GRADIENT), {}, ".*'param_list' should be a list of Parameter.*"),
    # Paddle 3.3 has neither clip for the intermediate representation that its static programs use by default.
    ("paddle", "ErrorClipByValue", (GRADIENT,), {}, ".*no attribute '_set_error_clip'.*"),
    ("paddle", "nn.ClipGradByValue [SGD, static]", (GRADIENT,), {}, ".*"),
    ("paddle-fluid", "", (GRADIENT,), UNKNOWN, ".*unexpected keyword argument 'eps'.*"),
    ("tensorflow", "", (EXCLUDED,), {}, ".*unexpected keyword argument 'need_clip'.*"),
    ("tensorflow", "clip_by_value", (GRADIENT,), {"min": "low"}, ".*"),
    ("tensorflow-js", "", (GRADIENT,), {"min": 2.0}, r"min \(2\) must be less than or equal to max \(1\).*"),
    ("torch", "clip_grad_norm_[foreach=None]", (EXCLUDED,), {}, ".*unexpected keyword argument.*"),
    ("torch", "clip_grad_norm_[foreach=None]", (ROWS,), {}, ".*Could not run.*"),
)

#: The same, with the results of the call.
RESULTS: tuple[tuple[str, str, tuple[Gradient, ...], dict[str, Any], tuple[Any, ...]], ...] = (
    # A step of frozen parameters only.
    ("jittor", "", (NONE,), {}, (None,)),
    ("mindspore", "clip_by_value", (make_gradient(np.zeros((0, 3)), layout="strided"),), {"reused": True}, ([],)),
    *(
        ("optax", f"projection_{word}", (GRADIENT,), {"min": 0.0, "as_single": True}, ([1.0, 0.0],))
        for word in ("box[eager, scalars", "hypercube[jit]")
    ),
    # An empty list has an empty list of parameters.
    ("optax", "adaptive_grad_clip", (), {}, ()),
)


@functools.lru_cache(maxsize=None)  # noqa: UP033 - Python 3.7 has no functools.cache
def make_adapter(name: str) -> Adapter:
    """Return an adapter. Skip the test if its framework is missing and not required."""
    try:
        with warnings.catch_warnings():
            # Some frameworks use deprecated parts of others when they are imported.
            warnings.simplefilter("ignore")
            return resolve(name)
    except MissingFramework as error:
        if name in os.environ.get("GRADCLIP_REQUIRE", "").split(","):
            raise
        pytest.skip(str(error))


def list_entry_points(name: str, word: str) -> list[EntryPoint]:
    """Return the entry points of one process that have a word in their names."""
    named = [one for one in make_adapter(name).subjects() if word in one.name and "distributed" not in one.features]
    assert named
    return named


def ask(name: str, entry: EntryPoint, gradients: tuple[Gradient, ...], **options: Any) -> tuple[Any, ...]:
    """Return the results of a call with a threshold of 1 as lists."""
    needed = {"min": -1.0} if "requires_min" in entry.features else {}
    call = Call(entry.name, gradients, {OPERATIONS[entry.operation].threshold: 1.0, **needed, **options})
    return tuple(one and one.numpy().tolist() for one in make_adapter(name).call(call).gradients)


def need(name: str, *row: Any) -> Any:
    """Return a row as parameters of a test that needs the framework in this Python."""
    return pytest.param(name, *row, marks=pytest.mark.array_library(name))


# A block of ONNX Runtime whose `__init__` raised an error raises another one when it is deleted.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("name", "word", "gradients", "options", "text"), [need(*row) for row in ERRORS])
def test_error_of_a_framework_is_the_answer_to_its_call_alone(
    name: str, word: str, gradients: tuple[Gradient, ...], options: dict[str, Any], text: str
) -> None:
    first = make_adapter(name).subjects()[0]
    for entry in list_entry_points(name, word):
        with pytest.raises(FrameworkRaised) as raised:
            ask(name, entry, gradients, **options)
        assert re.fullmatch(text, raised.value.text, re.DOTALL), raised.value.text
        after = zip(gradients, raised.value.inputs or ())  # noqa: B905 - Python 3.7 has no strict zip
        assert all(gradient.array == array for gradient, array in after if gradient.rows is None)
        assert ask(name, first, (make_gradient(np.ones((1, 2))),)) != ()


@pytest.mark.parametrize(("name", "word", "gradients", "options", "results"), [need(*row) for row in RESULTS])
def test_result_of_a_rare_call(
    name: str, word: str, gradients: tuple[Gradient, ...], options: dict[str, Any], results: tuple[Any, ...]
) -> None:
    for entry in list_entry_points(name, word):
        assert ask(name, entry, gradients, **options) == results


@pytest.mark.array_library("mxnet")
def test_text_of_an_error_of_an_older_mxnet_has_neither_the_time_nor_a_stack_trace() -> None:
    make_adapter("mxnet")
    from gradclip_adapters.frameworks.mxnet import _cut_trace

    text = "[10:22:49] src/concat.cc:153: Check failed: i == dtype\nStack trace:\n  [bt] (0) /me/libmxnet.so(+0x30)"

    assert _cut_trace(text) == "src/concat.cc:153: Check failed: i == dtype"
