"""Compare the adapter of Keras with direct calls of Keras, on one backend. Needs Keras and the backend.

A process has one backend of Keras: that of an adapter in GRADCLIP_REQUIRE, or else the first that is installed.
"""

from __future__ import annotations

import importlib.util
import os
from typing import Any

import numpy as np
import pytest

from gradclip_adapters.contract import Array, Call, FrameworkRaised, Gradient, Unsupported

BACKENDS = ("torch", "tensorflow", "jax")
REQUIRED = [name for name in BACKENDS if f"keras-{name}" in os.environ.get("GRADCLIP_REQUIRE", "").split(",")]
INSTALLED = [name for name in BACKENDS if importlib.util.find_spec("keras") and importlib.util.find_spec(name)]
if not REQUIRED and not INSTALLED:
    pytest.skip("Keras, or a backend of it, is not installed in this environment", allow_module_level=True)
BACKEND = (REQUIRED or INSTALLED)[0]

from gradclip_adapters.frameworks import keras as module  # noqa: E402 - Keras must be there

ADAPTER = {"torch": module.use_torch, "tensorflow": module.use_tensorflow, "jax": module.use_jax}[BACKEND]()

import keras  # noqa: E402 - the adapter has chosen the backend
import ml_dtypes  # noqa: E402 - a dependency of Keras

#: The entry points of one device. `test_distributed_engines` tests the others.
SUBJECTS = {subject.name: subject for subject in ADAPTER.subjects() if "distributed" not in subject.features}
COMPILED = [name for name, subject in SUBJECTS.items() if "compiled" in subject.features]
DTYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64}
ASKED = [(name, dtype) for name, subject in SUBJECTS.items() for dtype in subject.dtypes]
VALUES = ([[3.0, -4.0, 0.5], [0.0, 0.25, 12.0]], [1.0, 2.0], 7.0)
MODE = {"torch": "", "tensorflow": "", "jax": "[jit_compile]"}[BACKEND]
#: For each operation, the argument of Keras and the option of the contract.
ARGUMENTS = {
    "clip_by_value": ("clipvalue", "max"),
    "clip_by_norm": ("clipnorm", "clip_norm"),
    "clip_by_global_norm": ("global_clipnorm", "clip_norm"),
}


def make_gradients(dtype: str) -> tuple[Gradient, ...]:
    """Return three gradients and a None among them."""
    arrays = [Array.of(np.array(values, DTYPES[dtype])) for values in VALUES]
    first, *rest = (Gradient(f"g{n}", array) for n, array in enumerate(arrays))
    return (first, Gradient("none", None), *rest)


def make_options(subject: str, threshold: float) -> dict[str, Any]:
    """Return options with the threshold under the name that the operation uses."""
    return {ARGUMENTS[SUBJECTS[subject].operation][1]: threshold}


def clip_by_hand(subject: str, dtype: str, threshold: float) -> list[Array]:
    """Let the optimizer take one eager step, without the adapter."""
    argument = ARGUMENTS[SUBJECTS[subject].operation][0]
    gradients = [keras.ops.convert_to_tensor(np.array(values, DTYPES[dtype]), dtype) for values in VALUES]
    variables = [keras.Variable(np.zeros(np.shape(values), np.float32), dtype=dtype) for values in VALUES]
    if "Adam" in subject:
        optimizer = keras.optimizers.Adam(beta_1=0.0, **{argument: threshold})
        optimizer.apply(gradients, variables)
        shown = [one for one in optimizer.variables if one.name.endswith("momentum")]
        return [Array.of(keras.ops.convert_to_numpy(one.value)) for one in shown]
    keras.optimizers.SGD(1.0, **{argument: threshold}).apply(gradients, variables)
    return [Array.of(-keras.ops.convert_to_numpy(variable.value)) for variable in variables]


def read_numbers(arrays: Any) -> list[Any]:
    """Return the elements of each array as numbers. The sign of a zero does not matter in an optimizer."""
    return [None if array is None else array.numpy().astype(float).tolist() for array in arrays]


def test_about_gives_the_imported_versions() -> None:
    about = ADAPTER.about()

    assert about.version == keras.__version__
    assert about.environment[BACKEND]
    assert keras.backend.backend() == BACKEND


@pytest.mark.parametrize(("subject", "dtype"), ASKED)
@pytest.mark.parametrize("threshold", [1.5, 64.0])
@pytest.mark.filterwarnings("ignore:Gradients do not exist", "ignore:__array__ implementation:DeprecationWarning")
def test_adapter_answers_like_a_direct_call(subject: str, dtype: str, threshold: float) -> None:
    reply = ADAPTER.call(Call(subject, make_gradients(dtype), make_options(subject, threshold)))

    first, none, *rest = reply.gradients
    assert none is None
    assert [array and array.dtype for array in (first, *rest)] == [dtype] * 3
    found, expected = read_numbers((first, *rest)), read_numbers(clip_by_hand(subject, dtype, threshold))
    for one, other in zip(found, expected, strict=True):
        # XLA fuses a compiled step, and so rounds in another order.
        np.testing.assert_allclose(one, other, rtol=1e-6 if subject in COMPILED else 0)
    assert reply.inputs == tuple(gradient.array for gradient in make_gradients(dtype))


@pytest.mark.parametrize("subject", sorted(SUBJECTS))
@pytest.mark.parametrize("option", ["min", "norm_type", "error_if_nonfinite"])
def test_option_that_keras_does_not_have_is_refused(subject: str, option: str) -> None:
    with pytest.raises((FrameworkRaised, Unsupported), match=option):
        ADAPTER.call(Call(subject, make_gradients("float32"), {**make_options(subject, 1.0), option: 1.0}))


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
    subject = f"keras.optimizers.SGD(clipnorm){MODE}"

    with pytest.raises(Unsupported, match=message) as raised:
        ADAPTER.call(Call(subject, (gradient,), {"clip_norm": 1.0, **options}))

    assert raised.value.kind == ("adapter" if subject in COMPILED else "interface")


def test_row_sparse_gradients_exist_on_tensorflow_only() -> None:
    gradient = Gradient("a", Array.of(np.array([[3.0], [4.0]], np.float32)), rows=(2, 0), height=3)
    call = Call(f"keras.optimizers.SGD(clipnorm){MODE}", (gradient,), {"clip_norm": 2.5})

    if BACKEND != "tensorflow":
        with pytest.raises(Unsupported, match="sparse"):
            ADAPTER.call(call)
        return
    reply = ADAPTER.call(call)

    assert read_numbers(reply.gradients) == [[[2.0], [0.0], [1.5]]]


def test_second_backend_in_a_process_is_refused() -> None:
    other = {"torch": module.use_jax, "tensorflow": module.use_torch, "jax": module.use_torch}[BACKEND]

    with pytest.raises(ImportError, match=f"already runs on {BACKEND}"):
        other()
