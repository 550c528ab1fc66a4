"""Check that an error names each bad argument and comes before any change. Check the effects of `inplace`."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from gradclip_spec import (
    clip_by_average_norm,
    clip_by_block_rms,
    clip_by_global_norm,
    clip_by_norm,
    clip_by_value,
    clip_per_example,
    clip_unitwise,
    global_norm,
)


@pytest.mark.parametrize("clip", [clip_by_norm, clip_by_global_norm])
@pytest.mark.parametrize(
    ("arguments", "error", "name"),
    [
        ({"clip_norm": -1.0}, ValueError, "clip_norm"),
        ({"clip_norm": math.nan}, ValueError, "clip_norm"),
        ({"clip_norm": 10**400}, ValueError, "clip_norm"),
        ({"clip_norm": True}, TypeError, "clip_norm"),
        ({"clip_norm": "1"}, TypeError, "clip_norm"),
        ({"clip_norm": None}, TypeError, "clip_norm"),
        ({"clip_norm": np.array([1.0])}, TypeError, "clip_norm"),
        ({"clip_norm": np.timedelta64(1)}, TypeError, "clip_norm"),
        ({"clip_norm": Fraction(-1, 10**400)}, ValueError, "clip_norm"),
        # Python refuses to print a number with so many digits.
        ({"clip_norm": Fraction(-1, 10**5000)}, ValueError, "clip_norm"),
        ({"clip_norm": 1.0, "norm_type": 0}, ValueError, "norm_type"),
        ({"clip_norm": 1.0, "norm_type": -2}, ValueError, "norm_type"),
        ({"clip_norm": 1.0, "norm_type": math.nan}, ValueError, "norm_type"),
        ({"clip_norm": 1.0, "norm_type": "fro"}, TypeError, "norm_type"),
        ({"clip_norm": 1.0, "eps": -1e-6}, ValueError, "eps"),
        ({"clip_norm": 1.0, "eps": math.inf}, ValueError, "eps"),
        ({"clip_norm": 1.0, "eps": Fraction(-1, 10**400)}, ValueError, "eps"),
        ({"clip_norm": 1.0, "inplace": 1}, TypeError, "inplace"),
    ],
)
def test_bad_numbers_and_switches(clip: Any, arguments: Any, error: Any, name: str) -> None:
    array = np.array([3.0, 4.0])
    with pytest.raises(error, match=f"`{name}`"):
        clip([array], **{"inplace": True, **arguments})

    assert array.tolist() == [3.0, 4.0]


@pytest.mark.parametrize("clip", [clip_by_block_rms, clip_by_average_norm, clip_per_example])
def test_negative_thresholds(clip: Any) -> None:
    with pytest.raises(ValueError, match="`clip_norm`"):
        clip([np.ones((2, 3))], -1.0)


def test_numbers_beyond_the_range_of_floats() -> None:
    # Python refuses to print a number with so many digits.
    for number, says in (
        (10**5000, "above 1.8e+308; use float('inf')"),
        (-(10**5000), "below -1.8e+308; give a"),
        # On systems where NumPy's widest float is float64, this is infinity.
        *([(np.finfo(np.longdouble).max, "above 1.8e+308")] if np.finfo(np.longdouble).maxexp > 1024 else []),
    ):
        for call, name in (clip_by_norm, "clip_norm"), (clip_by_value, "max"):
            with pytest.raises(ValueError, match=f"`{name}` must be .*, got one {re.escape(says)}"):
                call(np.ones(1), number)


@pytest.mark.parametrize(
    ("arguments", "error", "name"),
    [
        ({"max": -1.0}, ValueError, "max"),
        ({"max": math.nan}, ValueError, "max"),
        ({"max": Fraction(-1, 10**400)}, ValueError, "max"),
        ({"max": Fraction(-1, 10**5000)}, ValueError, "max"),
        ({"max": 0, "min": Fraction(1, 10**5000)}, ValueError, "min"),
        ({"max": 1.0, "min": 2.0}, ValueError, "min"),
        # As floats, the bounds are equal.
        ({"max": 2**53, "min": 2**53 + 1}, ValueError, "min"),
        ({"max": 1.0, "min": math.nan}, ValueError, "min"),
        ({"max": "1"}, TypeError, "max"),
        ({"max": 1.0, "min": False}, TypeError, "min"),
    ],
)
def test_bad_bounds(arguments: Any, error: Any, name: str) -> None:
    with pytest.raises(error, match=f"`{name}`"):
        clip_by_value([np.array([3.0])], **arguments)


def test_numbers_of_other_types_are_accepted() -> None:
    array = np.array([3.0, 4.0])

    for threshold in (Fraction(5, 2), np.float32(2.5), np.float64(2.5)):
        assert clip_by_norm(array, threshold).tolist() == [1.5, 2.0]
    assert clip_by_norm(array, np.int64(5)) is array


@pytest.mark.parametrize(
    "array", [np.array([1, 2]), np.array([1j]), np.array([True]), np.array(["x"]), np.array([1.0], np.longdouble)]
)
def test_other_dtypes_are_refused(array: Any) -> None:
    for call in (lambda: global_norm([array]), lambda: clip_by_value([array], 1.0), lambda: clip_by_norm(array, 1.0)):
        with pytest.raises(TypeError, match=f"float64, got {array.dtype.name}"):
            call()


def test_masked_arrays_are_refused() -> None:
    masked = np.ma.MaskedArray(np.array([3.0, 1000.0]), mask=[False, True])
    for call in (lambda: global_norm(masked), lambda: clip_by_value([masked], 1.0), lambda: clip_by_norm(masked, 1.0)):
        with pytest.raises(TypeError, match="masked array; fill the masked elements"):
            call()


def test_views_of_a_dict_are_gradients_and_flags() -> None:
    grads, flags = {"a": np.array([3.0]), "b": np.array([4.0])}, {"a": True, "b": False}
    clipped = clip_by_norm(grads.values(), 1.0, need_clip=flags.values())
    assert [array.tolist() for array in clipped] == [[1.0], [4.0]]


def test_byte_orders_are_kept() -> None:
    arrays = [np.full(2, 3, "<f4"), np.full(2, 3, ">f4"), np.full(2, 3, ">f8")]
    for clipped in (
        clip_by_global_norm(arrays, 1.0)[0],
        clip_by_norm(arrays, 1.0),
        clip_by_value(arrays, 1.0),
        clip_by_global_norm(arrays[::-1], 1.0)[0][::-1],
    ):
        assert [array.dtype.str for array in clipped] == ["<f4", ">f4", ">f8"]
    # The dtypes differ, but both have the name float32.
    assert [array.dtype.str for array in clip_by_global_norm(arrays[:2], 1.0)[0]] == ["<f4", ">f4"]


@pytest.mark.parametrize("leaf", [1.0, "gradient", [1.0], object()])
def test_leaves_that_are_not_arrays(leaf: Any) -> None:
    with pytest.raises(TypeError, match=r"optree|must be arrays"):
        global_norm([leaf])


def test_libraries_do_not_mix() -> None:
    strict = pytest.importorskip("array_api_strict")
    array = np.array([3.0])
    with pytest.raises(TypeError, match="one array library"):
        clip_by_norm([array, strict.asarray([4.0])], 1.0, inplace=True)

    assert array.tolist() == [3.0]


@pytest.mark.only_where(lambda backend: backend.readable)
@pytest.mark.parametrize("values", [[math.nan, 1.0], [math.inf, 1.0]])
def test_error_if_nonfinite_is_raised_before_any_change(backend: Any, values: list[float]) -> None:
    arrays = [backend.array([3.0]), backend.array(values)]
    with pytest.raises(FloatingPointError, match="total norm"), np.errstate(all="ignore"):
        clip_by_global_norm(arrays, 1.0, error_if_nonfinite=True, inplace=backend.writeable)

    assert backend.read(arrays[0]).tolist() == [3.0]
    assert float(backend.read(clip_by_global_norm(arrays[:1], 1.0, error_if_nonfinite=True)[1])) == 3.0


@pytest.mark.only_where(lambda backend: backend.writeable)
def test_in_place_writes_into_the_arrays(backend: Any) -> None:
    for dtype in backend.dtypes:
        arrays = [backend.array([3.0, 4.0], dtype), None, backend.array([100.0], dtype), backend.array(-12.0, dtype)]
        for clip, wanted in (
            (lambda a, f: clip_by_global_norm(a, 6.5, need_clip=f, inplace=True)[0], [[1.5, 2.0], [100.0], -6.0]),
            (lambda a, f: clip_by_norm(a, 1.25, need_clip=f, inplace=True), [[0.75, 1.0], [100.0], -1.25]),
            (lambda a, f: clip_by_average_norm(a, 0.3125, need_clip=f, inplace=True), [[0.375, 0.5], [100.0], -0.3125]),
            # Each array is its own parameter, so that its limit is half of its norm.
            (lambda a, f: clip_unitwise(a, a, 0.5, need_clip=f, inplace=True), [[0.1875, 0.25], [100.0], -0.15625]),
            (lambda a, f: clip_by_value(a, 0.125, need_clip=f, inplace=True), [[0.125, 0.125], [100.0], -0.125]),
        ):
            clipped = clip(arrays, [True, None, False, True])

            assert all(new is old for new, old in zip(clipped, arrays, strict=True))
            assert [backend.read(array).astype(float).tolist() for array in arrays if array is not None] == wanted


@pytest.mark.only_where(lambda backend: not backend.writeable)
def test_in_place_is_refused_for_read_only_arrays(backend: Any) -> None:
    array = backend.array([3.0, 4.0])
    for clip in (clip_by_global_norm, clip_by_norm, clip_by_value):
        # The last words are those of a library that only finds out when it is asked to write.
        with pytest.raises(TypeError, match=r"inplace|cannot be written into"):
            clip([array], 1.0, inplace=True)

    assert backend.read(array).tolist() == [3.0, 4.0]


def test_in_place_is_refused_before_the_first_array_is_written() -> None:
    first, second = np.array([3.0]), np.array([4.0])
    second.flags.writeable = False
    with pytest.raises(TypeError, match=r"the gradient at '1' .* it is read-only"):
        clip_by_global_norm([first, second], 1.0, inplace=True)

    assert first.tolist() == [3.0]


@pytest.mark.only_where(lambda backend: backend.writeable)
def test_in_place_scales_a_repeated_array_once(backend: Any) -> None:
    for dtype in backend.dtypes:
        for clip, threshold in ((clip_by_norm, 1.5), (clip_by_global_norm, 3.0)):
            array = backend.array([-3.0], dtype)
            clip([array] * 4, threshold, inplace=True)

            assert backend.read(array).astype(float).tolist() == [-1.5]


@pytest.mark.parametrize(
    ("call", "keyword", "own"),
    [
        (clip_by_global_norm, "max_norm", "here it is called `clip_norm`"),
        (clip_by_norm, "max_norm", "here it is called `clip_norm`"),
        (clip_by_value, "clip_value", "here it is called `max`"),
        (clip_by_value, "clip_value_min", "here it is called `min`"),
        (global_norm, "ord", "here it is called `norm_type`"),
        (clip_by_global_norm, "epsilon", "here it is called `eps`"),
        (clip_by_global_norm, "foreach", "leave it out"),
        (clip_by_global_norm, "parameters", "the first argument, without a name"),
        # Arguments without a counterpart in this function.
        (clip_by_value, "max_norm", "it has `inplace`, `max`, `min`, `need_clip`"),
        (clip_by_norm, "anything", "it has `clip_norm`, `eps`, `inplace`, `need_clip`, `norm_type`"),
    ],
)
def test_error_about_another_librarys_keyword_names_ours(call: Any, keyword: str, own: str) -> None:
    array = np.array([3.0, 4.0])
    with pytest.raises(TypeError, match=re.escape(f"{call.__name__}() has no argument `{keyword}`; ") + f".*{own}"):
        call([array], **{keyword: 1.0})
    assert array.tolist() == [3.0, 4.0]


def test_errors_name_the_path_of_the_leaf() -> None:
    grads = {"encoder": [{"bias": np.array([1.0])}, {"bias": np.array([1])}], "head": np.array([2.0])}
    with pytest.raises(TypeError, match=r"the gradient at 'encoder\.1\.bias'"):
        clip_by_norm(grads, 1.0, inplace=True)
    with pytest.raises(ValueError, match=r"excludes 'decoder'.* there are 'encoder\.0\.bias', 'encoder\.1\.bias'"):
        clip_by_norm(grads, 1.0, need_clip={"decoder"})
    # Keys with dots are not paths: flags are matched by their position in the tree.
    assert clip_by_norm({"a.b": np.ones(1), "a": {"b": np.ones(1)}}, 0.5, need_clip={"a.b": False, "a": {"b": True}})[
        "a.b"
    ].tolist() == [1.0]
