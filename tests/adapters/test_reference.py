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
    FEATURES,
    OPERATIONS,
    Array,
    Call,
    EntryPoint,
    FrameworkRaised,
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
    names = {"clip_by_value": "max", "clip_unitwise": "clip_factor"}
    return {names.get(subject.operation, "clip_norm"): threshold}


def make_call(subject: EntryPoint, gradients: tuple[Gradient, ...], threshold: float, **options: Any) -> Call:
    """Return a call of an entry point. Each unit of a parameter has the norm 1, if the operation has parameters."""
    if subject.operation == "clip_unitwise":
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


def list_clips_of_one_batch(adapter: ReferenceAdapter) -> list[EntryPoint]:
    """Return the entry points whose results have the shapes of the gradients."""
    return [subject for subject in adapter.subjects() if subject.operation != "clip_per_example"]


def read_values(arrays: Any) -> list[Any]:
    """Return the arrays of a reply as lists."""
    return [None if array is None else array.numpy().tolist() for array in arrays]


def test_contract_defines_every_feature(adapter: ReferenceAdapter) -> None:
    assert {feature for subject in adapter.subjects() for feature in subject.features} <= set(FEATURES)


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


def test_only_in_place_entry_points_write(adapter: ReferenceAdapter) -> None:
    gradients = make_gradients([3.0, 4.0], [12.0])
    for subject in list_clips_of_one_batch(adapter):
        reply = adapter.call(make_call(subject, gradients, 1.0))

        if "in_place" in subject.features:
            assert reply.inputs == reply.gradients
            assert reply.same_object == (True, True)
        else:
            assert reply.inputs == tuple(gradient.array for gradient in gradients)
            assert reply.gradients != reply.inputs


def test_gradients_below_the_threshold_keep_every_bit(adapter: ReferenceAdapter) -> None:
    for subject in list_clips_of_one_batch(adapter):
        for dtype in subject.dtypes:
            bits = np.dtype({"float16": "u2", "bfloat16": "u2", "float32": "u4", "float64": "u8"}[dtype])
            # Zero, minus zero, and two numbers whose last bit matters. There is no subnormal number, because some
            # libraries flush those to zero. The suite's own cases show that.
            sign = 1 << (8 * bits.itemsize - 1)
            numbers = [0, sign, (0x3B << (8 * bits.itemsize - 8)) - 1, sign + (0x3B << (8 * bits.itemsize - 8)) + 1]
            array = Array.of(np.array(numbers, bits).reshape(2, 2), dtype)
            gradients = (Gradient("a", array), Gradient("b", array, need_clip=False))

            reply = adapter.call(make_call(subject, gradients, 64.0))

            assert reply.gradients == (array, array), (subject.name, dtype)


def test_layout_does_not_change_the_answer(adapter: ReferenceAdapter) -> None:
    for subject in adapter.subjects():
        for layout in ("strided", "transposed", "sliced", "reversed"):
            (plain,) = make_gradients([[6.0, -2.0, 0.5], [3.0, 0.0, 1.0]])
            assert plain.array is not None
            gradient = Gradient("a", plain.array, layout=layout)
            call = make_call(subject, (gradient,), 1.5)
            if ("reversed" if layout == "reversed" else "strided") not in subject.features:
                with pytest.raises(Unsupported, match="layout"):
                    adapter.call(call)
                continue

            expected = adapter.call(make_call(subject, (plain,), 1.5))

            for found, wanted in zip(adapter.call(call).gradients, expected.gradients, strict=True):
                assert found is not None
                assert wanted is not None
                np.testing.assert_array_max_ulp(found.numpy(), wanted.numpy(), 1)


def test_options_and_flags_are_passed_to_the_reference(adapter: ReferenceAdapter) -> None:
    for subject in select_by_operation(adapter, "clip_by_global_norm"):
        first, second = make_gradients([3.0, 4.0], [100.0])
        excluded = (first, Gradient("b", second.array, need_clip=False))

        largest = adapter.call(Call(subject.name, excluded, {"clip_norm": 2.0, "norm_type": float("inf")}))
        padded = adapter.call(Call(subject.name, excluded, {"clip_norm": 2.0, "eps": 3.0}))

        assert read_values(largest.gradients) == [[1.5, 2.0], [100.0]]
        assert read_values([largest.norm]) == [4.0]
        np.testing.assert_allclose(read_values(padded.gradients)[0], [0.75, 1.0], rtol=2e-7)

    for subject in select_by_operation(adapter, "clip_by_value"):
        reply = adapter.call(Call(subject.name, make_gradients([-9.0, 9.0]), {"max": 4.0, "min": -1.0}))

        assert read_values(reply.gradients) == [[-1.0, 4.0]]


def test_error_of_the_reference_is_its_answer(adapter: ReferenceAdapter) -> None:
    for subject in select_by_operation(adapter, "clip_by_norm"):
        with pytest.raises(FrameworkRaised, match="ValueError") as raised:
            adapter.call(Call(subject.name, make_gradients([3.0]), {"clip_norm": -1.0}))

        assert raised.value.inputs == (make_array([3.0]),)


def test_generator_gives_the_same_answer_as_a_list(adapter: ReferenceAdapter) -> None:
    for subject in list_clips_of_one_batch(adapter):
        gradients = make_gradients([3.0, 4.0], None, [12.0])
        plain = adapter.call(make_call(subject, gradients, 1.0))

        assert adapter.call(make_call(subject, gradients, 1.0, as_generator=True)) == plain


def test_single_array_is_passed_without_a_list(adapter: ReferenceAdapter) -> None:
    for subject in adapter.subjects():
        gradients = make_gradients([3.0, 4.0])
        plain = adapter.call(make_call(subject, gradients, 1.0))

        assert adapter.call(make_call(subject, gradients, 1.0, as_single=True)) == plain


def test_calls_at_the_same_time_do_not_change_the_answer() -> None:
    adapter, gradients = reference.numpy(), make_gradients([3.0, 4.0], None, [12.0])
    for subject in select_by_operation(adapter, "clip_by_global_norm"):
        alone = adapter.call(Call(subject.name, gradients, {"clip_norm": 1.0}))

        assert adapter.call(Call(subject.name, gradients, {"clip_norm": 1.0, "threads": 2})) == alone


def test_calls_before_and_after_do_not_change_the_answer(adapter: ReferenceAdapter) -> None:
    """Check calls that come before on the same arrays, and calls that come after on other arrays."""
    for subject in list_clips_of_one_batch(adapter):
        gradients = make_gradients([3.0, 4.0], None, [12.0])
        alone = adapter.call(make_call(subject, gradients, 1.0))

        for feature, option in (("reuses", "reused"), ("follows", "followed")):
            if feature in subject.features:
                assert adapter.call(make_call(subject, gradients, 1.0, **{option: True})) == alone


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


def test_norm_of_an_empty_list_is_read(adapter: ReferenceAdapter) -> None:
    for subject in select_by_operation(adapter, "clip_by_global_norm"):
        for gradients in ((), make_gradients(None, None)):
            reply = adapter.call(make_call(subject, gradients, 1.0))

            assert reply.norm == make_array(0.0)
            assert reply.gradients == (None,) * len(gradients)


def test_declaration_about_subnormal_numbers_is_true(adapter: ReferenceAdapter) -> None:
    (tiny,) = make_gradients([3e-42, -4e-42])
    for subject in select_by_operation(adapter, "clip_by_norm"):
        (clipped,) = adapter.call(make_call(subject, (tiny,), 1e-42)).gradients
        assert clipped is not None
        largest = float(np.abs(clipped.numpy()).max())

        assert (abs(largest - 0.8e-42) > 2.0**-149) == ("flushes_subnormals" in subject.features)
