"""Test what the adapter of Keras passes on and what it refuses, on one backend. Needs Keras and the backend.

A process has one backend of Keras: that of an adapter in GRADCLIP_REQUIRE, or else the first that is installed.
"""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import numpy as np
import pytest

from gradclip_adapters.contract import Array, Call, FrameworkRaised, Gradient, Unsupported
from gradclip_adapters.operations import OPERATIONS

BACKENDS = ("torch", "tensorflow", "jax")
REQUIRED = [name for name in BACKENDS if f"keras-{name}" in os.environ.get("GRADCLIP_REQUIRE", "").split(",")]
INSTALLED = [name for name in BACKENDS if importlib.util.find_spec("keras") and importlib.util.find_spec(name)]
if not REQUIRED and not INSTALLED:
    pytest.skip("Keras, or a backend of it, is not installed in this environment", allow_module_level=True)
BACKEND = (REQUIRED or INSTALLED)[0]

from gradclip_adapters.frameworks import keras as module  # noqa: E402 - Keras must be there

ADAPTER = {"torch": module.use_torch, "tensorflow": module.use_tensorflow, "jax": module.use_jax}[BACKEND]()

import keras  # noqa: E402 - the adapter has chosen the backend

#: The entry points of one device. `test_distributed_engines` tests the others.
ENTRY_POINTS = {entry.name: entry for entry in ADAPTER.subjects() if "distributed" not in entry.features}
COMPILED = [name for name, entry in ENTRY_POINTS.items() if "compiled" in entry.features]
MODE = {"torch": "", "tensorflow": "", "jax": "[jit_compile]"}[BACKEND]


def test_about_gives_the_imported_versions() -> None:
    about = ADAPTER.about()

    assert about.version == keras.__version__
    assert about.environment[BACKEND]
    assert keras.backend.backend() == BACKEND


@pytest.mark.parametrize("entry_point", sorted(ENTRY_POINTS))
@pytest.mark.parametrize("option", ["min", "norm_type", "error_if_nonfinite"])
def test_option_that_keras_does_not_have_is_refused(entry_point: str, option: str) -> None:
    gradient = Gradient("a", Array.of(np.ones(2, np.float32)))
    threshold = OPERATIONS[ENTRY_POINTS[entry_point].operation].threshold

    with pytest.raises((FrameworkRaised, Unsupported), match=option):
        ADAPTER.call(Call(entry_point, (gradient,), {threshold: 1.0, option: 1.0}))


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"need_clip": False}, {}, "excludes"),
        ({"group": 1}, {}, "group"),
        ({"layout": "reversed"}, {}, "strides|layout"),
        ({}, {"as_single": True}, "list"),
        ({}, {"as_generator": True}, "generator|list of gradients"),
    ],
)
def test_unsupported_calls_are_refused(changes: dict[str, Any], options: dict[str, Any], message: str) -> None:
    gradient = Gradient("a", Array.of(np.ones(2, np.float32)), **changes)
    entry_point = f"keras.optimizers.SGD(clipnorm){MODE}"

    with pytest.raises(Unsupported, match=message) as raised:
        ADAPTER.call(Call(entry_point, (gradient,), {"clip_norm": 1.0, **options}))

    assert raised.value.kind == ("adapter" if entry_point in COMPILED else "interface")


def test_row_sparse_gradients_exist_on_tensorflow_only() -> None:
    gradient = Gradient("a", Array.of(np.array([[3.0], [4.0]], np.float32)), rows=(2, 0), height=3)
    call = Call(f"keras.optimizers.SGD(clipnorm){MODE}", (gradient,), {"clip_norm": 2.5})

    if BACKEND != "tensorflow":
        with pytest.raises(Unsupported, match="sparse"):
            ADAPTER.call(call)
        return
    reply = ADAPTER.call(call)

    assert [one and one.numpy().tolist() for one in reply.gradients] == [[[2.0], [0.0], [1.5]]]


def test_second_backend_in_a_process_is_refused() -> None:
    other = {"torch": module.use_jax, "tensorflow": module.use_torch, "jax": module.use_torch}[BACKEND]

    with pytest.raises(ImportError, match=f"already runs on {BACKEND}"):
        other()
