"""Check the covering design. It is complete, it stays the same, and it catches wrong functions."""

from __future__ import annotations

import hashlib
import itertools
import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import gradclip_adapters
from gradclip_adapters.contract import Array, Call, Gradient, Reply, Subject
from gradclip_adapters.plain import PlainFunction
from gradclip_adapters.recipes import KINDS, WITH_WEIGHT, Recipe, decode_recipe, encode_recipe, expand
from gradclip_adapters.wire import decode_call, decode_reply, encode_call, encode_reply
from gradclip_conformance.cases.build import OPERATIONS as OPERATION_NAMES
from gradclip_conformance.cli import gradclip
from gradclip_conformance.covering.axes import OPERATIONS, list_axes, list_heavy_levels
from gradclip_conformance.covering.calls import WholeCall
from gradclip_conformance.covering.constraints import can_complete, find_reason
from gradclip_conformance.covering.designs import find_stage, read_rows, write_design
from gradclip_conformance.covering.generate import Missing, extend
from gradclip_conformance.covering.measure import measure_coverage
from gradclip_conformance.covering.members import is_crowd
from gradclip_conformance.covering.rows import RowCase, find_row, list_all_rows, list_cases
from gradclip_conformance.oracle.distances import measure
from gradclip_conformance.oracle.predict import predict
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import PlannedCell
from gradclip_conformance.run.runner import run_cell

#: A digest of what all recipes make, computed on Python 3.11 with NumPy 2.
DIGEST = "09a78a8d837b4130153ac4d45886ce6f0536e8b0785486287545b9825cb89aa6"


@pytest.mark.exam(sample=1)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_rows_hold_every_possible_pair_and_kernel_triple(operation: str) -> None:
    for kernel in (False, True):
        found = measure_coverage(operation, kernel=kernel)
        assert found.missing == []
        assert found.asked == found.possible > 3000
    assert measure_coverage(operation, "quick").missing == []


@pytest.mark.exam(sample=0)
def test_thorough_rows_hold_every_possible_triple_and_four_kernel_levels() -> None:
    for kernel in (False, True):
        found = measure_coverage("value", "thorough", kernel)
        assert (found.strength, found.missing, found.left) == (4 if kernel else 3, [], 0)
        assert found.asked == found.possible > 100_000
    assert set(read_rows("value")) < set(read_rows("value", "thorough"))


@pytest.mark.parametrize("operation", OPERATIONS)
def test_quick_search_for_a_complete_row_agrees_with_a_slow_one(operation: str) -> None:
    axes = list_axes(operation)

    def search(words: list[str]) -> bool:
        open_axes = [axis for axis in axes if not set(words) & set(axis.list_words())]
        if find_reason(operation, words) is not None or not open_axes:
            return find_reason(operation, words) is None
        return any(search([*words, word]) for word in open_axes[0].list_words())

    answers = Counter()
    for draw in range(300):
        chosen = [axes[(draw * 7 + turn * (1 + draw % 5)) % len(axes)] for turn in range(2 + draw % 3)]
        words = [axis.list_words()[(draw * 11 + place) % len(axis.levels)] for place, axis in enumerate(chosen)]
        if len({axis.name for axis in chosen}) == len(chosen):
            answers[search(words)] += 1
            assert can_complete(operation, words) == search(words), words
    assert min(answers[True], answers[False]) > 20


@pytest.mark.parametrize("strength", [2, 3, 4])
def test_gains_count_the_missing_combinations(strength: int) -> None:
    missing = Missing(frozenset(range(6)), strength, np.zeros((12,) * strength, dtype=np.bool_))
    for place, levels in enumerate(itertools.product((0, 1), repeat=6)):
        if place % 3:
            missing.array[np.ix_(*[[2 * axis + level for axis, level in enumerate(levels)]] * strength)] = True
    for axis in range(6):
        # No combination has two levels of one axis.
        for dimensions in itertools.combinations(range(strength), 2):
            index: list[Any] = [slice(None)] * strength
            index[dimensions[0]] = index[dimensions[1]] = slice(2 * axis, 2 * axis + 2)
            missing.array[tuple(index)] = False
    missing.cross_off([0, 2, 4, 6, 8, 10])

    gains = missing.find_gains([1, 2, 5, 6], 8)

    for level in (10, 11):
        others = itertools.combinations([1, 2, 5, 6], strength - 2)
        assert gains[level] == sum(missing.array[(8, level, *chosen)] for chosen in others)
    assert gains[8] == gains[9] == 0
    assert gains[10] <= gains[11] == math.comb(4, strength - 2)


@pytest.mark.exam(sample=1)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_coverage_shows_missing_combinations(operation: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = read_rows(operation)
    monkeypatch.setattr("gradclip_conformance.covering.measure.read_rows", lambda *_: rows[: len(rows) // 2])
    assert measure_coverage(operation, kernel=True).missing


def test_pairs_are_counted_correctly() -> None:
    """Count the pairs of one operation in another way. Each row gives its own pairs."""
    asked = {pair for row in read_rows("norm") for pair in itertools.combinations(row, 2)}
    axes = list_axes("norm")
    possible = {
        pair
        for one, other in itertools.combinations(axes, 2)
        for pair in itertools.product(one.list_words(), other.list_words())
        if can_complete("norm", pair)
    }
    assert asked == possible


def test_missing_rows_are_generated() -> None:
    axes, rows = list_axes("value"), read_rows("value", "quick")
    kept = [tuple(axis.list_words().index(word) for axis, word in zip(axes, row, strict=True)) for row in rows[:-9]]

    found = extend("value", kept, find_stage("quick"))

    assert 0 < len(found) <= 18
    made = [tuple(axis.list_words()[level] for axis, level in zip(axes, row, strict=True)) for row in found]
    lost = {pair for row in rows for pair in itertools.combinations(row, 2)}
    lost -= {pair for row in rows[:-9] for pair in itertools.combinations(row, 2)}
    assert lost <= {pair for row in made for pair in itertools.combinations(row, 2)}
    assert all(find_reason("value", row) is None for row in made)
    assert extend("value", [*kept, *found], find_stage("quick")) == []


def test_unknown_stage_is_refused_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="no stage 'quik': quick, default, thorough"):
        read_rows("value", "quik")


@pytest.mark.exam(sample=0)
def test_page_shows_the_counts_and_all_levels() -> None:
    page = Path(__file__).parents[2] / "docs" / "explanation" / "coverage.md"

    shown = CliRunner().invoke(gradclip, ["rules", "--coverage"])

    assert shown.stdout == page.read_text(encoding="utf-8")


@pytest.mark.exam
@pytest.mark.parametrize("operation", OPERATIONS)
def test_stored_rows_equal_generated_rows(operation: str) -> None:
    path = Path(sys.modules[write_design.__module__].__file__ or "").parent / "designs" / f"{operation}.json"
    assert path.read_text(encoding="utf-8") == write_design(operation)


def test_ids_name_their_rows() -> None:
    rows = list_all_rows()
    assert len({row.id for row in rows}) == len(rows)
    for row in rows[::7]:
        found = find_row(row.id)
        assert found is not None
        assert found.levels == row.levels
    assert find_row("norm.combinations/s1_n1_no-such-level/float32") is None
    assert find_row("norm.combinations/n1_s1/float32") is None


def test_row_is_shown_with_its_call_and_all_that_is_judged() -> None:
    row = next(row for row in list_all_rows() if row.levels["size"] == "s2" and row.operation == "clip_by_norm")

    shown = CliRunner().invoke(gradclip, ["show", row.id])

    assert shown.exit_code == 0, shown.output
    text = " ".join(shown.stdout.split())
    assert text.startswith(row.id)
    assert "clip_norm" in text
    assert "the norm and the gradients that were passed are judged, too" in text


def test_words_of_levels_are_unique() -> None:
    for operation in OPERATIONS:
        words = [word for axis in list_axes(operation) for word in axis.list_words()]
        assert len(set(words)) == len(words)
        assert not any("_" in word or "/" in word for word in words)
        assert list_heavy_levels(operation) < set(words)


def _compute_digest() -> str:
    found = hashlib.sha256()
    for kind, dtype, period in itertools.product(sorted(KINDS), ("float16", "bfloat16", "float32", "float64"), (0, 3)):
        for count in (0, 1, 3, 17, 1001):
            found.update(expand(Recipe(kind, 3, -2, period, 4 if count == 17 else 0, -3), dtype, (count,)))
    return found.hexdigest()


def test_recipes_make_the_same_bits_everywhere() -> None:
    assert _compute_digest() == DIGEST


@pytest.mark.skipif("GRADCLIP_OLD_PYTHON" not in os.environ, reason="GRADCLIP_OLD_PYTHON names no Python 3.7")
def test_recipes_make_the_same_bits_in_python_3_7() -> None:
    folder = Path(gradclip_adapters.__file__).parents[1]
    source = Path(__file__).read_text(encoding="utf-8")
    lines = source[source.index("def _compute_digest") : source.index("def test_recipes_make_the_same_bits_everywhere")]
    program = (
        f"import hashlib, itertools, sys\nsys.path.insert(0, {str(folder)!r})\n"
        f"from gradclip_adapters.recipes import KINDS, WITH_WEIGHT, Recipe, expand\n{lines}\nprint(_compute_digest())"
    )
    done = subprocess.run(
        [os.environ["GRADCLIP_OLD_PYTHON"], "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == DIGEST


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_numbers_use_every_digit_and_both_signs(dtype: str) -> None:
    bits = Array(dtype, (999,), expand(Recipe("numbers"), dtype, (999,))).bits()
    assert (bits & 1).all()
    negative = bits >> (bits.itemsize * 8 - 1)
    assert 400 < int(negative.sum()) < 600


@pytest.mark.parametrize("count", [16, 1001, 65_537])
@pytest.mark.parametrize("kind", WITH_WEIGHT)
def test_the_ends_and_the_middle_weigh_as_much_as_the_rest(kind: str, count: int) -> None:
    recipe = Recipe(f"weighty-{kind}")
    squares = Array("float64", (count,), expand(recipe, "float64", (count,))).numpy() ** 2
    assert squares[[0, 1, count // 2, -2, -1]].min() > squares.sum() / 100


def test_rows_with_excluded_tensors_have_excluded_and_included_long_tensors() -> None:
    rows = [row for row in list_all_rows() if row.levels["excluded"] != "all-in" and row.levels["size"] == "s513"]
    for row in rows[::4]:
        sides: dict[bool, list[int]] = {True: [], False: []}
        for gradient in row.gradients:
            if gradient.array is not None:
                sides[gradient.need_clip].append(math.prod(gradient.array.shape))
        assert all(max(sizes) >= 513 for sizes in sides.values() if sizes), row.id


def test_crowds_have_long_tensors_of_all_kinds_beyond_the_limits_of_lists() -> None:
    crowds = [row for row in list_all_rows() if is_crowd(row.levels)]
    assert Counter(row.operation for row in crowds) == {
        "clip_by_value": 3,
        "clip_by_norm": 3,
        "clip_by_global_norm": 3,
    }
    for row in crowds[:3]:
        far = row.gradients[1024:]
        long = [one for one in far if one.array is not None and math.prod(one.array.shape) > 2**18]
        shapes = {len(one.array.shape) for one in long if one.array is not None}
        assert len(long) == 10
        assert shapes == {1, 2, 3, 5}
        assert {one.layout for one in long} >= {"contiguous", "transposed", "strided", "sliced"}
        excluded = {one.need_clip for one in long}
        assert excluded == ({True, False} if row.levels["excluded"] == "x-odd" else {True})


def test_an_excluded_tensor_stands_alone_in_each_dtype_and_layout() -> None:
    for operation in OPERATION_NAMES.values():
        rows = [row for row in list_all_rows() if row.operation == operation and row.levels["excluded"] == "x-all"]
        alone = {(row.levels["dtype"], row.levels["layout"]) for row in rows if row.levels["number"] == "n1"}
        words = {axis.name: axis.list_words() for axis in list_axes("value")}
        dtypes = [word for word in words["dtype"] if "+" not in word]
        # The bfloat16 of NumPy has one byte order.
        assert alone >= set(itertools.product(dtypes, words["layout"])) - {("bfloat16", "swapped")}


def test_long_tensors_stand_in_long_lists_of_each_dtype_and_relation() -> None:
    for operation in OPERATION_NAMES.values():
        rows = [row for row in list_all_rows() if row.operation == operation and row.levels["size"] == "s65537"]
        for dtype in ("float16", "float32", "float64"):
            mine = [row.levels for row in rows if row.levels["dtype"] == dtype]
            assert {levels["number"] for levels in mine} >= {"n111", "n129", "n321"}
            long = [levels for levels in mine if levels["number"] in {"n111", "n129", "n321"}]
            assert {levels["relation"] for levels in long} >= {"above", "at", "slightly-above"}


def test_tails_of_long_tensors_have_one_element_or_more() -> None:
    sizes = {math.prod(g.array.shape) for row in list_all_rows()[::9] for g in row.gradients if g.array is not None}
    for chunk in (4096, 16_384, 65_536):
        tails = {size % chunk for size in sizes if chunk < size < 2 * chunk + 200}
        assert {1, 17} <= tails, (chunk, tails)


def test_excluded_tensors_are_not_zero_even_if_only_one_tensor_counts() -> None:
    rows = [row for row in list_all_rows() if (row.levels["relation"], row.levels["excluded"]) == ("at", "x-odd")]
    rows = [row for row in rows if row.operation == "clip_by_global_norm" and row.levels["number"] in {"n3", "n10"}]
    assert rows
    for row in rows:
        arrays = [(g.need_clip, g.array) for g in row.gradients if g.array is not None]
        assert sum(any(array.data) for included, array in arrays if included) == 1
        assert all(any(array.data) for included, array in arrays if not included)


def test_a_recipe_survives_the_wire() -> None:
    recipe = Recipe("edges", 2, -3, 0, 0, 0)
    array = Array("float32", (70, 3), expand(recipe, "float32", (70, 3)), recipe)
    call = Call("subject", (Gradient("g0", array), Gradient("g1", None)), {"clip_norm": 1.0})
    message = encode_call(call, 1, by_recipe=True)
    assert "data" not in message["gradients"][0]["array"]
    back = decode_call(message)
    assert back == call
    assert back.gradients[0].array is not None
    assert back.gradients[0].array.recipe == recipe
    assert decode_recipe(encode_recipe(recipe)) == recipe

    other = Array("float32", (1,), b"\0\0\0\1")
    reply = Reply((array, None), inputs=(array, None))
    small = encode_reply(reply, 1, back)
    assert small["gradients"][0] == small["inputs"][0] == {"same": "call"}
    assert decode_reply(small, call) == reply
    changed = Reply((other, None), inputs=(other, None))
    assert encode_reply(changed, 1, back)["inputs"][0] == {"same": "result"}
    assert decode_reply(encode_reply(changed, 1, back), call) == changed
    with pytest.raises(ValueError, match="no array"):
        decode_reply(small)


@pytest.mark.parametrize("items", [[], ["edges"], [1, 2, 3, 4, 5, 6], ["edges", 0, 0, 0, 0, 0.5]])
def test_invalid_recipe_is_refused(items: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"recipe|unpack"):
        decode_recipe(items)


@pytest.mark.parametrize("row", [row for row in list_all_rows() if row.levels["size"] in {"s2", "s4", "s33"}][::60])
def test_whole_call_measurement_equals_element_by_element_measurement(row: RowCase) -> None:
    """Check that both measurements give the same distance for expected results that are rounded to float32 digits."""
    case = row.make()
    prediction = predict(case)
    if case.operation == "clip_by_value" or None in prediction.norms[:1]:
        return
    results = [
        None if g.array is None else Array(g.array.dtype, g.array.shape, bytes(len(g.array.data)))
        for g in case.gradients
    ]
    slow = measure(case, prediction, results, case.included)
    fast = WholeCall(case, dict(case.expectation.parameters)["exact"]).measure(results)
    assert fast.grade == slow.grade
    assert fast.ulp == pytest.approx(slow.ulp, rel=1e-6, abs=0.1)


# Wrong functions. Each is wrong only if several circumstances occur together.


def _clip(grads: Sequence[Any], clip_norm: float, need_clip: Sequence[bool], norm_type: float = 2.0) -> tuple[Any, Any]:
    counted = [np.asarray(g, np.longdouble) for g, flag in zip(grads, need_clip, strict=True) if g is not None and flag]
    flat = np.abs(np.concatenate([np.zeros(1, np.longdouble), *(g.ravel() for g in counted)]))
    with np.errstate(all="ignore"):
        norm = flat.max() if norm_type == math.inf else (flat**norm_type).sum() ** (1 / np.longdouble(norm_type))
        factor = np.longdouble(1) if norm <= clip_norm else clip_norm / norm
        return [
            g if g is None or not flag or factor == 1 else (g * factor).astype(g.dtype)
            for g, flag in zip(grads, need_clip, strict=True)
        ], norm


def clip_right(grads: Any, *, clip_norm: Any, need_clip: Any, norm_type: float = 2.0) -> Any:
    return _clip(grads, clip_norm, need_clip, norm_type)


def loses_the_last_partial_chunk(grads: Any, *, clip_norm: Any, need_clip: Any, norm_type: float = 2.0) -> Any:
    cut = [g if g is None or g.size < 65536 else g.ravel()[: g.size // 65536 * 65536] for g in grads]
    _, norm = _clip(cut, clip_norm, need_clip, norm_type)
    clipped, _ = _clip(grads, clip_norm, need_clip, norm_type)
    return clipped, norm


def leaves_the_111th_tensor(grads: Any, *, clip_norm: Any, need_clip: Any, norm_type: float = 2.0) -> Any:
    clipped, norm = _clip(grads, clip_norm, need_clip, norm_type)
    return [grads[i] if i == 110 else g for i, g in enumerate(clipped)], norm


def rounds_long_excluded_float64(grads: Any, *, clip_norm: Any, need_clip: Any, norm_type: float = 2.0) -> Any:
    clipped, norm = _clip(grads, clip_norm, need_clip, norm_type)
    for i, (g, flag) in enumerate(zip(grads, need_clip, strict=True)):
        if g is not None and not flag and g.dtype == np.float64 and g.size > 1000:
            with np.errstate(all="ignore"):
                clipped[i] = g.astype(np.float32).astype(np.float64)
    return clipped, norm


def scales_odd_matrices_below(grads: Any, *, clip_norm: Any, need_clip: Any, norm_type: float = 2.0) -> Any:
    clipped, norm = _clip(grads, clip_norm, need_clip, norm_type)
    odd = [g is not None and g.ndim == 2 and g.shape[1] % 2 == 1 for g in grads]
    if 0 < norm <= clip_norm < math.inf:
        clipped = [
            g * g.dtype.type(0.5) if some and flag else g for g, some, flag in zip(clipped, odd, need_clip, strict=True)
        ]
    return clipped, norm


def returns_nan_for_the_infinity_norm_of_nothing(
    grads: Any, *, clip_norm: Any, need_clip: Any, norm_type: float = 2.0
) -> Any:
    clipped, norm = _clip(grads, clip_norm, need_clip, norm_type)
    empty = grads and all(g is not None and g.size == 0 for g in grads)
    return clipped, math.nan if empty and norm_type == math.inf else norm


def writes_beyond_the_gradient(grads: Any, *, clip_norm: Any, need_clip: Any, norm_type: float = 2.0) -> Any:
    """Round the size up to whole vectors when results are written."""
    clipped, norm = _clip(grads, clip_norm, need_clip, norm_type)
    for g in grads:
        if g is not None and g.flags.c_contiguous and g.base is not None and g.base.dtype == np.uint8:
            end = g.ctypes.data + g.nbytes - g.base.ctypes.data
            g.base[end : end + -g.nbytes % 16] = 0
    return clipped, norm


def reads_the_bytes_in_native_order(grads: Any, *, clip_norm: Any, need_clip: Any, norm_type: float = 2.0) -> Any:
    native = [g if g is None else np.frombuffer(g.tobytes(), g.dtype.newbyteorder("=")) for g in grads]
    clipped, norm = _clip(native, clip_norm, need_clip, norm_type)
    return [g if g is None else g.reshape(old.shape) for g, old in zip(clipped, grads, strict=True)], norm


WRONG = (
    reads_the_bytes_in_native_order,
    writes_beyond_the_gradient,
    loses_the_last_partial_chunk,
    leaves_the_111th_tensor,
    rounds_long_excluded_float64,
    scales_odd_matrices_below,
    returns_nan_for_the_infinity_norm_of_nothing,
)


def _list_statuses(function: Callable[..., Any], levels: dict[str, set[str]], limit: int) -> list[str]:
    """Return the statuses of the first rows that have one of the given levels on each axis."""
    connection = InProcess(PlainFunction(function, "clip_by_global_norm"))
    (subject,) = connection.description.subjects
    cases = [
        case for _, case in list_cases(subject) if all(case.levels[axis] in words for axis, words in levels.items())
    ]
    return [run_cell(connection, PlannedCell(subject, case, None), 30).status for case in cases[:limit]]


EXCLUDED = {"x-first", "x-middle", "x-last", "x-all", "x-but-one", "x-odd", "x-even"}

#: Each function is wrong for these levels, so few rows need to run.
WHERE = {
    "loses_the_last_partial_chunk": {"size": {"s65537"}, "data": {"edges", "numbers"}},
    "leaves_the_111th_tensor": {"number": {"n111"}, "relation": {"above"}},
    "rounds_long_excluded_float64": {"dtype": {"float64"}, "size": {"s1025", "s4097"}, "excluded": EXCLUDED},
    "scales_odd_matrices_below": {"shape": {"odd"}, "relation": {"below"}},
    "reads_the_bytes_in_native_order": {"layout": {"swapped"}, "size": {"s4", "s9", "s33", "s513"}},
    "writes_beyond_the_gradient": {"layout": {"packed"}, "relation": {"above", "far-above", "slightly-above"}},
    "returns_nan_for_the_infinity_norm_of_nothing": {"size": {"s0"}, "norm": {"p-inf"}},
}


@pytest.mark.exam(sample=3)
@pytest.mark.parametrize("function", WRONG)
def test_function_that_is_wrong_for_a_combination_fails(function: Callable[..., Any]) -> None:
    where = WHERE[function.__name__]
    assert "fail" in _list_statuses(function, where, 12)
    assert not {"fail", "error"} & set(_list_statuses(clip_right, where, 12))


@pytest.mark.exam
def test_right_function_passes_all_rows() -> None:
    assert set(_list_statuses(clip_right, {}, 10_000)) <= {"pass", "quality"}


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("dtypes", [("float64",), ("float16",), ("bfloat16", "float16"), ("float32", "float64")])
@pytest.mark.parametrize("features", [(), ("excludes", "none_grads", "norm_type")])
def test_subject_is_asked_for_nothing_impossible(
    operation: str, dtypes: tuple[str, ...], features: tuple[str, ...]
) -> None:
    subject = Subject("any", OPERATION_NAMES[operation], dtypes, features, (1.0, 2.0))

    reasons = {case.id: find_reason(operation, list(case.levels.values())) for _, case in list_cases(subject)}

    assert len(reasons) > 100
    assert {name: reason for name, reason in reasons.items() if reason} == {}
