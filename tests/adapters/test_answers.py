"""Check single answers of adapters: what they refuse, the texts of errors of frameworks, and results of rare calls.

A row needs its framework. These tests also run in the own Python of an old framework.
"""

from __future__ import annotations

import functools
import importlib
import os
import re
import warnings
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradclip_adapters.contract import (
    Adapter,
    Array,
    Call,
    EntryPoint,
    FrameworkRaised,
    Gradient,
    MissingDevice,
    Unsupported,
)
from gradclip_adapters.operations import OPERATIONS
from gradclip_adapters.registry import BUILT_IN, MissingFramework, resolve


def make_gradient(values: Any, dtype: str = "float32", **changes: Any) -> Gradient:
    return Gradient("g", Array.of(np.array(values, dtype)), **changes)


GRADIENT = make_gradient([3.0, -4.0])
EMPTY = make_gradient([])
NONE = Gradient("none", None)
EXCLUDED = replace(GRADIENT, need_clip=False)
AGAIN = replace(GRADIENT, same_as=0)
#: The gradients of three examples.
EXAMPLES = make_gradient(np.ones((3, 2)))
REVERSED = replace(GRADIENT, layout="reversed")
#: Rows 1 and 3 of four.
ROWS = make_gradient([[3.0], [4.0]], rows=(1, 3), height=4)
STRIDED = replace(GRADIENT, layout="strided")
UNKNOWN = {"eps": 1.0}

#: Packages on JAX, and words in the names of their ordinary entry points.
ON_JAX = (("jax", ""), ("optax", "optax.clip"))
#: Packages on torch that take the parameters of a call. DeepSpeed takes a model, and Opacus the gradients of examples.
ON_TORCH = [
    name for name, where in BUILT_IN.items() if ".torch_based." in where and name not in ("deepspeed", "opacus")
]

#: Adapters, words in the names of entry points, and options for which the framework has no parameter.
OPTIONS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("chainer", "GradientClipping", ("norm_type", "error_if_nonfinite", "need_clip")),
    ("deepspeed", "[ZeRO 1]", ("norm_type",)),
    ("jax", "", ("norm_type", "error_if_nonfinite")),
    ("megengine", "clip_grad_norm", ("error_if_nonfinite", "eps")),
    ("mindspore", "ops.clip_by_norm", ("eps", "need_clip")),
    ("mlx", "", ("norm_type", "error_if_nonfinite")),
    ("mxnet", "clip_global_norm", ("norm_type", "error_if_nonfinite")),
    ("nnabla", "norm", ("norm_type", "error_if_nonfinite", "need_clip")),
    ("optax", "optax.clip", ("min", "norm_type", "error_if_nonfinite")),
    ("thinc", "", ("norm_type", "error_if_nonfinite", "need_clip")),
    ("torch", "clip_grad_norm_[foreach=None]", ("eps",)),
    ("torch", "clip_grad_value_[", ("min",)),
    *((name, "", ("eps",)) for name in ON_TORCH),
)

#: For each kind of refusal: adapters, words in the names of entry points, gradients and options of a call, and words of
#: the refusal.
FORMS: dict[str, tuple[tuple[str, str, tuple[Gradient, ...], dict[str, Any], str], ...]] = {
    "interface": (
        ("chainer", "", (ROWS,), {}, "row-sparse"),
        ("deepspeed", "[ZeRO 1]", (), {}, "empty list"),
        *((name, word, (STRIDED,), {}, "have no strides") for name, word in ON_JAX),
        *((name, word, (ROWS,), {}, "row-sparse") for name, word in ON_JAX),
        *((name, word, (GRADIENT,), {"reused": True}, "immutable") for name, word in ON_JAX),
        ("jittor", "", (make_gradient(3.0),), {}, "at least one axis"),
        ("jittor", "", (STRIDED,), {}, "contiguous gradients"),
        ("jittor", "", (ROWS,), {}, "row-sparse"),
        ("jittor", "", (), {}, "empty list"),
        ("jittor", "", (GRADIENT, AGAIN), {}, "another gradient"),
        ("jittor", "", (GRADIENT,), {"threads": 2}, "threads"),
        ("megengine", "", (make_gradient([3.0, 4.0], "float64"),), {}, "made of float16 or float32"),
        ("megengine", "", (ROWS,), {}, "not row-sparse"),
        ("megengine", "", (REVERSED,), {}, "layout of its own"),
        ("mindspore", "", (ROWS,), {}, "not row-sparse"),
        ("mindspore", "", (REVERSED,), {}, "layout of its own"),
        ("mlx", "", (ROWS,), {}, "row-sparse"),
        ("mlx", "", (REVERSED,), {}, "layout of its own"),
        ("mxnet", "", (STRIDED,), {}, "no strides"),
        ("mxnet", "", (make_gradient([]),), {}, "unknown shape"),
        ("mxnet", "", (make_gradient(3.0),), {}, "unknown shape"),
        ("nnabla", "", (STRIDED,), {}, "no strides"),
        ("nnabla", "", (ROWS,), {}, "row-sparse"),
        ("nnabla", "", (make_gradient([3.0, 4.0], "float64"),), {}, "filled in float32"),
        ("onnxruntime-training", "[SGD]", (GRADIENT, AGAIN), {}, "same name"),
        ("opacus", "", (), {}, "empty list"),
        ("opacus", "DPOptimizer", (EXAMPLES, NONE), {}, "every parameter has gradients of the examples"),
        ("opacus", "PerLayer", (EXAMPLES, EXAMPLES), {}, "a norm of its own"),
        ("optax", "layer_norm", (GRADIENT, GRADIENT), {}, "each layer has a norm of its own"),
        ("optax", "hypercube[eager]", (GRADIENT,), {"min": -1.0}, "the lower bound of a hypercube is zero"),
        *(("tensorflow", f"clip_by_{one}[", (), {}, "takes one tensor") for one in ("value", "norm", "average_norm")),
        *((name, "static", (NONE,), {}, "needs a loss") for name in ("paddle", "paddle-fluid")),
        ("paddle-fluid", "dygraph", (NONE,), {}, "needs a loss"),
        ("paddle-fluid", "", (make_gradient(3.0),), {}, "no 0-d tensors"),
        ("thinc", "", (ROWS,), {}, "row-sparse"),
        ("thinc", "", (), {}, "takes one tensor"),
        ("torch", "then torch.optim.SGD", (), {}, "empty list of parameters"),
        ("torch", "GradScaler", (NONE,), {}, "backward pass"),
        ("torch", "GradScaler", (STRIDED,), {}, "backward pass"),
        ("torch", "float64 norm", (make_gradient([1.7e308, 1.7e308], "float64"),), {}, "beyond the largest number"),
        *((name, "", (GRADIENT,), {"as_single": True}, "^it takes (a module|several)") for name in ON_TORCH),
        *((name, "", (GRADIENT,), {"as_generator": True}, "^it takes (a module|several)") for name in ON_TORCH),
    ),
    "adapter": (
        ("jittor", "", (make_gradient([3.0, 4.0], "float16"),), {}, "narrower dtypes"),
        ("mxnet", "", (ROWS,), {}, "RowSparseNDArray"),
        ("paddle", "Adam", (GRADIENT,), {"learning_rate": 0.5}, "shows neither the learning rate"),
        ("paddle", "static", (GRADIENT,) * 501, {}, "at most 500"),
        ("paddle-fluid", "static", (GRADIENT,) * 501, {}, "time quadratic in its gradients"),
        ("torch", "GradScaler", (ROWS,), {}, "backward pass"),
        ("torch", "GradScaler", (GRADIENT,), {"reused": True}, "backward pass"),
        ("torch", "GradScaler", (GRADIENT,), {"followed": True}, "backward pass"),
    ),
    "kernel": (
        ("mindspore", "", (Gradient("g", Array("bfloat16", (1,), b"\0\0")),), {}, "no kernels"),
        ("paddle-fluid", "", (make_gradient([3.0, 4.0], "float16"),), {}, "no backward pass makes such gradients"),
    ),
}

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

#: The features of entry points that take an option, if they have another name. A row leaves these entry points out.
FEATURES = {"as_single": "single", "as_generator": "generator", "min": "min_max"}

WITH_DEVICES = ["jax", "optax", "paddle", "tensorflow", "torch"]
#: The modules that have the versions of frameworks, if they have other names than the adapters.
MODULES = {"fabric": "lightning_fabric"}


@functools.lru_cache(maxsize=None)
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


def make_call(entry: EntryPoint, gradients: tuple[Gradient, ...], options: dict[str, Any]) -> Call:
    """Return a call with a threshold, and with parameters if the clip needs them."""
    operation = OPERATIONS[entry.operation]
    if operation.is_relative:
        gradients = tuple(replace(one, parameter=one.array) for one in gradients)
    needed = {"min": -1.0} if "requires_min" in entry.features else {}
    return Call(entry.name, gradients, {operation.threshold: 1.0, **needed, **options})


def ask(name: str, entry: EntryPoint, gradients: tuple[Gradient, ...], options: dict[str, Any]) -> tuple[Any, ...]:
    """Return the results of a call as lists."""
    reply = make_adapter(name).call(make_call(entry, gradients, options))
    return tuple(one and one.numpy().tolist() for one in reply.gradients)


def list_entry_points(name: str, word: str, options: Iterable[str] = ()) -> list[EntryPoint]:
    """Return the entry points of one process that have a word in their names, and that do not declare the options."""
    named = [one for one in make_adapter(name).subjects() if word in one.name]
    assert named
    declared = {"distributed", *(FEATURES.get(option, option) for option in options)}
    return [one for one in named if not declared & set(one.features)]


def need(name: str, *row: Any) -> Any:
    """Return a row as parameters of a test that needs the framework in this Python."""
    return pytest.param(name, *row, marks=pytest.mark.array_library(name))


@pytest.mark.parametrize(
    ("name", "word", "option"), [need(name, word, one) for name, word, options in OPTIONS for one in options]
)
def test_framework_gets_an_option_that_it_does_not_have(name: str, word: str, option: str) -> None:
    for entry in list_entry_points(name, word, [option]):
        with pytest.raises(FrameworkRaised, match=f"unexpected keyword argument '{option}'"):
            make_adapter(name).call(make_call(entry, (GRADIENT,), {option: 1.0}))


@pytest.mark.parametrize(
    ("name", "word", "gradients", "options", "words", "kind"),
    [need(*row, kind) for kind, rows in FORMS.items() for row in rows],
)
def test_call_for_which_a_framework_has_no_form_is_unsupported(
    name: str, word: str, gradients: tuple[Gradient, ...], options: dict[str, Any], words: str, kind: str
) -> None:
    # A projection on a hypercube takes a lower bound, but only zero.
    for entry in list_entry_points(name, word, set(options) - {"min"}):
        with pytest.raises(Unsupported, match=words) as refused:
            make_adapter(name).call(make_call(entry, gradients, options))
        assert refused.value.kind == kind


@pytest.mark.parametrize("name", [need(name) for name in (*WITH_DEVICES, *ON_TORCH)])
def test_about_gives_the_version_of_the_imported_framework(name: str) -> None:
    about = make_adapter(name).about()

    assert about.version == importlib.import_module(MODULES.get(name, name)).__version__
    if name in ON_TORCH:
        assert about.environment["torch"] == importlib.import_module("torch").__version__


@pytest.mark.parametrize("name", [need(name) for name in WITH_DEVICES])
def test_missing_device_is_named(name: str) -> None:
    assert make_adapter(name).about().environment["device"] == "cpu"
    with pytest.raises(MissingDevice, match="finds no device 'quantum' on this machine"):
        resolve(name, device="quantum")


# A block of ONNX Runtime whose `__init__` raised an error raises another one when it is deleted.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("name", "word", "gradients", "options", "text"), [need(*row) for row in ERRORS])
def test_error_of_a_framework_is_the_answer_to_its_call_alone(
    name: str, word: str, gradients: tuple[Gradient, ...], options: dict[str, Any], text: str
) -> None:
    first = make_adapter(name).subjects()[0]
    for entry in list_entry_points(name, word):
        with pytest.raises(FrameworkRaised) as raised:
            ask(name, entry, gradients, options)
        assert re.fullmatch(text, raised.value.text, re.DOTALL), raised.value.text
        after = zip(gradients, raised.value.inputs or ())
        assert all(gradient.array == array for gradient, array in after if gradient.rows is None)
        assert ask(name, first, (make_gradient(np.ones((1, 2))),), {}) != ()


@pytest.mark.parametrize(("name", "word", "gradients", "options", "results"), [need(*row) for row in RESULTS])
def test_result_of_a_rare_call(
    name: str, word: str, gradients: tuple[Gradient, ...], options: dict[str, Any], results: tuple[Any, ...]
) -> None:
    for entry in list_entry_points(name, word):
        assert ask(name, entry, gradients, options) == results


@pytest.mark.array_library("mxnet")
def test_text_of_an_error_of_an_older_mxnet_has_neither_the_time_nor_a_stack_trace() -> None:
    make_adapter("mxnet")
    from gradclip_adapters.frameworks.mxnet import _cut_trace

    text = "[10:22:49] src/concat.cc:153: Check failed: i == dtype\nStack trace:\n  [bt] (0) /me/libmxnet.so(+0x30)"

    assert _cut_trace(text) == "src/concat.cc:153: Check failed: i == dtype"
