"""Test the adapter of the reference on every array library that is installed."""

from __future__ import annotations

import importlib.metadata
import os
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import gradclip_spec
from gradclip_adapters import reference
from gradclip_adapters.contract import (
    OPERATIONS,
    Array,
    Call,
    EntryPoint,
    Gradient,
    MissingDevice,
    Unsupported,
)
from gradclip_adapters.reference import ReferenceAdapter

LIBRARIES = ("numpy", "array_api_strict", "torch", "jax", "dask", "cupy")


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=pytest.mark.array_library(name), id=name) for name in LIBRARIES]
)
def adapter(request: pytest.FixtureRequest) -> ReferenceAdapter:
    """Return the adapter for one library. Skip if the library is missing and not required."""
    try:
        made = getattr(reference, request.param)()
    except (ImportError, MissingDevice) as error:
        if request.param.replace("_", "-") in os.environ.get("GRADCLIP_REQUIRE", "").split(","):
            raise
        pytest.skip(f"{request.param} does not work in this environment: {error}")
    assert isinstance(made, ReferenceAdapter)
    return made


def test_version_is_known_without_an_installed_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    def find_nothing(name: str) -> str:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "version", find_nothing)

    assert reference.numpy().about().version == gradclip_spec.__version__


def make_array(values: Any, dtype: str = "float32") -> Array:
    """Return values as an array of the wire format."""
    return Array.of(np.array(values, dtype=dtype))


def make_gradients(*values: Any, dtype: str = "float32") -> tuple[Gradient, ...]:
    """Return gradients with these values, and None for None."""
    return tuple(
        Gradient(f"g{number}", None if value is None else make_array(value, dtype))
        for number, value in enumerate(values)
    )


def make_options(subject: EntryPoint, threshold: float) -> dict[str, Any]:
    """Return options with the threshold under the name that the operation uses."""
    return {OPERATIONS[subject.operation].threshold: threshold}


def make_call(subject: EntryPoint, gradients: tuple[Gradient, ...], threshold: float, **options: Any) -> Call:
    """Return a call of an entry point. Each unit of a parameter has the norm 1, if the operation has parameters."""
    if OPERATIONS[subject.operation].is_relative:
        gradients = tuple(replace(gradient, parameter=make_parameter(gradient)) for gradient in gradients)
    return Call(subject.name, gradients, {**make_options(subject, threshold), **options})


def make_parameter(gradient: Gradient) -> Array:
    """Return a parameter whose units have the norm 1: the first element of each is 1, and the others are 0."""
    array = gradient.array or make_array(0.0)
    values = np.zeros(array.shape)
    values.reshape(-1, *array.shape[-1:])[..., 0] = 1.0
    bits = {"bfloat16": np.where(values, 0x3F80, 0).astype("u2")}.get(array.dtype)
    return Array.of(values.astype(array.dtype)) if bits is None else Array.of(bits, array.dtype)


def select_by_operation(adapter: ReferenceAdapter, operation: str) -> list[EntryPoint]:
    """Return the entry points of an operation: the functional one and the in-place one."""
    return [subject for subject in adapter.subjects() if subject.operation == operation]


def read_values(arrays: Any) -> list[Any]:
    """Return the arrays of a reply as lists."""
    return [None if array is None else array.numpy().tolist() for array in arrays]


def test_numpy_has_two_entry_points_for_each_operation() -> None:
    # A sum over examples has another shape than the gradients, so it cannot be written into them.
    assert len(reference.numpy().subjects()) == 2 * len(OPERATIONS) - 1


def test_each_operation_gives_the_expected_answer(adapter: ReferenceAdapter) -> None:
    expected = {
        "clip_by_value": [[[2.0, 0.5]], None, -2.0],
        "clip_by_norm": [[[2.0 * 6 / 6.5, 2.0 * 2.5 / 6.5]], None, -2.0],
        "clip_by_global_norm": [[[6 * 0.25, 2.5 * 0.25]], None, -4.5 * 0.25],
        "clip_by_block_rms": [[[2.0 * 6 * 2**0.5 / 6.5, 2.0 * 2.5 * 2**0.5 / 6.5]], None, -2.0],
        "clip_by_average_norm": [[[2.0 * 6 * 2 / 6.5, 2.0 * 2.5 * 2 / 6.5]], None, -2.0],
        "clip_per_example": [[2.0 * 6 / 6.5, 2.0 * 2.5 / 6.5]],
        "clip_unitwise": [[[2.0 * 6 / 6.5, 2.0 * 2.5 / 6.5]], None, -2.0],
    }
    gradients = dict.fromkeys(OPERATIONS, make_gradients([[6.0, 2.5]], None, -4.5, dtype="float64"))
    gradients["clip_per_example"] = make_gradients([[6.0, 2.5]], dtype="float64")
    gradients["clip_by_value"] = make_gradients([[6.0, 0.5]], None, -4.5, dtype="float64")
    norm = (6.0**2 + 2.5**2 + 4.5**2) ** 0.5
    for subject in adapter.subjects():
        threshold = norm * 0.25 if subject.operation == "clip_by_global_norm" else 2.0

        reply = adapter.call(make_call(subject, gradients[subject.operation], threshold))

        for found, wanted in zip(read_values(reply.gradients), expected[subject.operation], strict=True):
            assert (found is None) == (wanted is None)
            if wanted is not None:
                np.testing.assert_array_max_ulp(np.asarray(found), np.asarray(wanted), 2)
        if subject.operation == "clip_by_global_norm":
            assert reply.norm is not None
            assert reply.norm.shape == ()
            np.testing.assert_array_max_ulp(reply.norm.numpy(), np.asarray(norm), 1)
        else:
            assert reply.norm is None


@pytest.mark.parametrize(
    ("change", "feature"),
    [({"group": 1}, "groups"), ({"rows": (0, 1), "height": 3}, "sparse")],
    ids=["groups", "sparse"],
)
def test_gradient_that_an_entry_point_cannot_take_is_refused(change: dict[str, Any], feature: str) -> None:
    adapter, (gradient,) = reference.numpy(), make_gradients([3.0, 4.0])
    for subject in adapter.subjects():
        call = make_call(subject, (replace(gradient, **change),), 1.0)

        with pytest.raises(Unsupported, match=f"{re.escape(subject.name)} .*{feature}"):
            adapter.call(call)


def test_derivatives_are_refused_without_a_library_that_computes_them() -> None:
    adapter, (gradient,) = reference.numpy(), make_gradients([3.0, 4.0])
    for subject in adapter.subjects():
        with_cotangent = replace(gradient, cotangent=gradient.array)

        with pytest.raises(Unsupported, match="differentiable"):
            adapter.call(make_call(subject, (with_cotangent,), 1.0))


def test_order_of_a_norm_that_is_not_listed_is_refused(adapter: ReferenceAdapter) -> None:
    for subject in select_by_operation(adapter, "clip_by_norm"):
        options = {"clip_norm": 1.0, "norm_type": 7.0}

        with pytest.raises(Unsupported, match=r"no norm of the order 7\.0"):
            adapter.call(Call(subject.name, make_gradients([3.0]), options))


def test_declaration_about_subnormal_numbers_is_true(adapter: ReferenceAdapter) -> None:
    (tiny,) = make_gradients([3e-42, -4e-42])
    for subject in select_by_operation(adapter, "clip_by_norm"):
        (clipped,) = adapter.call(make_call(subject, (tiny,), 1e-42)).gradients
        assert clipped is not None
        largest = float(np.abs(clipped.numpy()).max())

        assert (abs(largest - 0.8e-42) > 2.0**-149) == ("flushes_subnormals" in subject.features)
