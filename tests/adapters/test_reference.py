"""Test the adapter of the reference on every array library that is installed."""

from __future__ import annotations

import importlib.metadata
import os
import re
from collections.abc import Sequence
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


def make_gradients(*values: Any, dtype: str = "float32") -> tuple[Gradient, ...]:
    """Return gradients with these values, and None for None."""
    return tuple(Gradient("g", None if value is None else Array.of(np.array(value, dtype))) for value in values)


def make_call(entry_point: EntryPoint, gradients: Sequence[Gradient], threshold: float, **options: Any) -> Call:
    """Return a call of an entry point. Each unit of a parameter has the norm 1, if the operation has parameters."""
    operation = OPERATIONS[entry_point.operation]
    if operation.is_relative:
        gradients = [replace(gradient, parameter=make_parameter(gradient)) for gradient in gradients]
    return Call(entry_point.name, tuple(gradients), {operation.threshold: threshold, **options})


def make_parameter(gradient: Gradient) -> Array:
    """Return a parameter whose units have the norm 1: the first element of each is 1, and the others are 0."""
    array = gradient.array or Array.of(np.zeros((), np.float32))
    values = np.zeros(array.shape, array.dtype)
    values.reshape(-1, *array.shape[-1:])[..., 0] = 1.0
    return Array.of(values)


def select_clips_by_norm(adapter: ReferenceAdapter) -> list[EntryPoint]:
    """Return the functional entry point, and the one in place if there is one."""
    return [entry_point for entry_point in adapter.subjects() if entry_point.operation == "clip_by_norm"]


def test_numpy_has_two_entry_points_for_each_operation() -> None:
    # A sum over examples has another shape than the gradients, so it cannot be written into them.
    assert len(reference.numpy().subjects()) == 2 * len(OPERATIONS) - 1


def test_each_operation_gives_the_expected_answer(adapter: ReferenceAdapter) -> None:
    norm, total = (6.0**2 + 2.5**2) ** 0.5, (6.0**2 + 2.5**2 + 4.5**2) ** 0.5
    # For each operation: the gradients, the threshold, and the results.
    rows: dict[str, tuple[list[Any], float, list[Any]]] = {
        "clip_by_value": ([[[6.0, 0.5]], None, -4.5], 2.0, [[[2.0, 0.5]], None, -2.0]),
        "clip_by_norm": ([[[6.0, 2.5]], None, -4.5], 2.0, [[[12.0 / norm, 5.0 / norm]], None, -2.0]),
        "clip_by_global_norm": ([[[6.0, 2.5]], None, -4.5], total / 4, [[[1.5, 0.625]], None, -1.125]),
        "clip_by_block_rms": (
            [[[6.0, 2.5]], None, -4.5],
            2.0,
            [[[12.0 * 2**0.5 / norm, 5.0 * 2**0.5 / norm]], None, -2.0],
        ),
        "clip_by_average_norm": ([[[6.0, 2.5]], None, -4.5], 2.0, [[[24.0 / norm, 10.0 / norm]], None, -2.0]),
        "clip_per_example": ([[[6.0, 2.5]]], 2.0, [[12.0 / norm, 5.0 / norm]]),
        "clip_unitwise": ([[[6.0, 2.5]], None, -4.5], 2.0, [[[12.0 / norm, 5.0 / norm]], None, -2.0]),
    }
    for entry_point in adapter.subjects():
        values, threshold, expected = rows[entry_point.operation]

        reply = adapter.call(make_call(entry_point, make_gradients(*values, dtype="float64"), threshold))

        for found, wanted in zip(reply.gradients, expected, strict=True):
            assert (found is None) == (wanted is None)
            if found is not None:
                np.testing.assert_array_max_ulp(found.numpy(), np.array(wanted), 2)
        assert (reply.norm is not None) == OPERATIONS[entry_point.operation].returns_norm
        if reply.norm is not None:
            assert reply.norm.shape == ()
            np.testing.assert_array_max_ulp(reply.norm.numpy(), np.array(total), 1)


@pytest.mark.parametrize(
    ("change", "feature"),
    [
        ({"group": 1}, "groups"),
        ({"rows": (0, 1), "height": 3}, "sparse"),
        # NumPy computes no derivatives.
        ({"cotangent": Array.of(np.ones(2, np.float32))}, "differentiable"),
    ],
    ids=["groups", "sparse", "differentiable"],
)
def test_gradient_that_an_entry_point_cannot_take_is_refused(change: dict[str, Any], feature: str) -> None:
    adapter, (gradient,) = reference.numpy(), make_gradients([3.0, 4.0])
    for entry_point in adapter.subjects():
        call = make_call(entry_point, [replace(gradient, **change)], 1.0)

        with pytest.raises(Unsupported, match=f"{re.escape(entry_point.name)} .*{feature}"):
            adapter.call(call)


def test_order_of_a_norm_that_is_not_listed_is_refused(adapter: ReferenceAdapter) -> None:
    for entry_point in select_clips_by_norm(adapter):
        with pytest.raises(Unsupported, match=r"no norm of the order 7\.0"):
            adapter.call(make_call(entry_point, make_gradients([3.0]), 1.0, norm_type=7.0))


def test_declaration_about_subnormal_numbers_is_true(adapter: ReferenceAdapter) -> None:
    for entry_point in select_clips_by_norm(adapter):
        (clipped,) = adapter.call(make_call(entry_point, make_gradients([3e-42, -4e-42]), 1e-42)).gradients
        assert clipped is not None
        largest = float(np.abs(clipped.numpy()).max())

        assert (abs(largest - 0.8e-42) > 2.0**-149) == ("flushes_subnormals" in entry_point.features)
