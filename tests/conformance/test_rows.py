"""Check the rows of the sampler. Each seed gives the same rows. The mutation tests show that rows catch defects."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from runs import run_command

from gradclip_adapters.contract import FEATURES, Array, Call, EntryPoint, Gradient, Reply
from gradclip_adapters.operations import PREFIXES
from gradclip_adapters.recipes import KINDS, WITH_WEIGHT, Recipe, decode_recipe, encode_recipe, expand
from gradclip_adapters.wire import decode_call, decode_reply, encode_call, encode_reply
from gradclip_conformance.cases.stacking import stack_units
from gradclip_conformance.oracle import distances
from gradclip_conformance.oracle.arrays import decode
from gradclip_conformance.oracle.distances import measure, measure_distances, measure_products
from gradclip_conformance.oracle.formats import FORMATS, has_long_doubles, round_to_long_double
from gradclip_conformance.oracle.long_doubles import DOUBT, WholeCall
from gradclip_conformance.oracle.model import ExpectedArray
from gradclip_conformance.oracle.predict import predict
from gradclip_conformance.run.plan import Selection
from gradclip_conformance.run.runner import plan_rows
from gradclip_conformance.sampler.axes import CROWDED, LONG, OPERATIONS, STACKED, list_axes
from gradclip_conformance.sampler.constraints import find_reason
from gradclip_conformance.sampler.draw import FIRST_ROWS, draw_levels
from gradclip_conformance.sampler.draw import ROWS as DEFAULT
from gradclip_conformance.sampler.members import choose_members
from gradclip_conformance.sampler.rows import RowCase, find_row, list_all_rows, list_cases

#: A digest of rows of every operation.
DIGEST_OF_ROWS = "e2d9d1af83457af0c316d9fc60e1f3294a889d3e22487e92d368658be69c89bc"

#: A digest of what all recipes make, computed on Python 3.11 with NumPy 2.
DIGEST = "09a78a8d837b4130153ac4d45886ce6f0536e8b0785486287545b9825cb89aa6"


#: Many rows of the clip by global norm.
ROWS = [RowCase("global-norm", draw_levels("global-norm", number)) for number in range(2000)]


@pytest.mark.thorough(sample=0)
def test_quick_check_leaves_out_long_lists_and_threads() -> None:
    entry_point = EntryPoint("clip", "clip_by_norm", dtypes=("float32", "float64"), features=("threads",))
    all_rows, quick = (
        [cell.case for cell in plan_rows([entry_point], Selection(), 60, quick=is_quick)] for is_quick in (False, True)
    )

    left_out = [case for case in all_rows if case not in quick]
    assert quick == [case for case in all_rows if len(case.gradients) <= 32 and "threads" not in case.needs]
    assert {len(case.gradients) > 32 for case in left_out} == {True, False}


def test_modes_of_a_function_share_its_rows() -> None:
    names = ("clip[fast=True]", "clip[fast=False]", "clip", "other_clip")
    entry_points = [EntryPoint(name, "clip_by_norm", dtypes=("float32", "float64")) for name in names]
    asked: dict[str, list[str]] = {name: [] for name in names}
    for cell in plan_rows(entry_points, Selection(), 60):
        asked[cell.entry_point.name].append(cell.case.id)

    all_rows = asked["clip[fast=True]"]
    assert asked["other_clip"] == all_rows
    for name in ("clip[fast=False]", "clip"):
        assert set(asked[name]) < set(all_rows)
        assert 0 < len(asked[name]) <= 15
    assert set(asked["clip[fast=False]"]).isdisjoint(asked["clip"])


def test_the_same_seed_draws_the_same_rows_everywhere() -> None:
    drawn = [draw_levels(operation, number, 7) for operation in ("value", "global-norm") for number in range(50)]

    # A new level changes what is drawn, and so the digest. The names of rows stay.
    assert hashlib.sha256(json.dumps(drawn).encode()).hexdigest() == DIGEST_OF_ROWS


@pytest.mark.thorough(sample=2)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_rows_have_every_level_and_no_impossible_pair(operation: str) -> None:
    rows = [draw_levels(operation, number) for number in range(3000)]

    assert {word for row in rows for word in row.values()} == {
        word for axis in list_axes(operation) for word in axis.list_words()
    }
    assert [
        find_reason(operation, list(row.values())) for row in rows if find_reason(operation, list(row.values()))
    ] == []


def test_named_row_gets_both_bounds_if_the_entry_point_requires_them() -> None:
    name = "value.combinations/s4_n3/float32"
    entry_point = EntryPoint("any", "clip_by_value", ("float32",), ("functional", "min_max", "requires_min"))

    (planned,) = plan_rows([entry_point], Selection(cases=(name,)))

    assert planned.case.id == name
    assert planned.case.options["min"] == -planned.case.options["max"]


@pytest.mark.thorough(sample=2)
@pytest.mark.parametrize("operation", OPERATIONS)
def test_most_rows_are_small_and_few_are_crowded(operation: str) -> None:
    entry_point = EntryPoint(
        "any", PREFIXES[operation].function, ("float16", "float32", "float64"), tuple(FEATURES), (1.0, 2.0)
    )
    features = tuple(name for name in FEATURES if name not in ("distributed", "compiled", "requires_min"))
    rows = [row for _, row in list_cases(replace(entry_point, features=features))]
    counts = sorted(len(row.gradients) for row in rows)

    assert len(rows) > 0.9 * DEFAULT
    assert counts[len(counts) // 2] <= 40
    assert sum(count > 120 for count in counts) <= len(counts) // 6


@pytest.mark.parametrize("operation", [name for name in OPERATIONS if name not in STACKED])
def test_hardly_any_default_row_is_both_long_and_crowded(operation: str) -> None:
    rows = [draw_levels(operation, number) for number in range(5 * DEFAULT)]
    both = [row["size"] in LONG and row["number"] in CROWDED for row in rows]

    assert 0 < sum(both[:DEFAULT]) <= DEFAULT // 20
    assert sum(both[DEFAULT:]) > 4 * DEFAULT // 20


@pytest.mark.parametrize("operation", [name for name in OPERATIONS if name not in STACKED])
def test_rows_beyond_the_first_ones_are_seldom_costly(operation: str) -> None:
    first, later = ([draw_levels(operation, start + number) for number in range(800)] for start in (0, FIRST_ROWS))

    def count_costly(rows: list[dict[str, str]]) -> int:
        return sum(row["size"] in LONG or row["number"] in CROWDED or row["repeated"] == "threaded" for row in rows)

    assert count_costly(first) > len(first) / 7
    assert len(later) / 100 < count_costly(later) < len(later) / 12


def test_no_row_has_two_tensors_of_a_million_elements() -> None:
    """Two of them would take most of the memory of a check."""
    levels = draw_levels("norm", 0) | {"size": "s262145", "number": "n3", "company": "alike", "place": "long-last"}
    words = {axis.name: axis.list_words() for axis in list_axes("norm")}
    alone, beside_excluded = [], []
    for threshold, data in itertools.product(words["threshold"], words["data"]):
        row = levels | {"threshold": threshold, "data": data}
        for excluded, found in ((set(), alone), ({2}, beside_excluded)):
            found.append(sum(math.prod(one.shape) for one in choose_members(row, 3, 2, excluded, set())))

    # If nothing is excluded, only one tensor is long.
    assert 2**20 < max(alone) < 2**20 + 2**13
    assert 2**19 < max(beside_excluded) < 2**20 + 2**18


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

    shown = run_command("show", row.id)

    assert shown.exit_code == 0, shown.output
    text = " ".join(shown.stdout.split())
    assert text.startswith(row.id)
    assert "clip_norm" in text
    assert "the norm and the gradients that were passed are judged, too" in text


def test_recipes_make_the_same_bits_everywhere() -> None:
    found = hashlib.sha256()
    for kind, dtype, period in itertools.product(sorted(KINDS), ("float16", "bfloat16", "float32", "float64"), (0, 3)):
        for count in (0, 1, 3, 17, 1001):
            found.update(expand(Recipe(kind, 3, -2, period, 4 if count == 17 else 0, -3), dtype, (count,)))

    assert found.hexdigest() == DIGEST


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
    rows = [row for row in ROWS if row.levels["excluded"] != "all-in" and row.levels["size"] == "s513"]
    for row in rows[::4]:
        sides: dict[bool, list[int]] = {True: [], False: []}
        for gradient in row.gradients:
            if gradient.array is not None:
                sides[gradient.need_clip].append(math.prod(gradient.array.shape))
        assert all(max(sizes) >= 513 for sizes in sides.values() if sizes), row.id


def test_matrices_of_one_row_are_no_vectors() -> None:
    rows = [RowCase("unitwise", draw_levels("unitwise", number)) for number in range(100)]
    shapes = [
        gradient.array.shape
        for row in rows
        if row.levels["shape"] == "one-row" and "various" not in row.levels.values()
        for gradient in stack_units(row.gradients, last=False)
        if gradient.array is not None
    ]

    assert shapes
    assert {(len(shape), shape[0]) for shape in shapes} == {(2, 1)}


def test_rows_of_several_entry_points_stand_side_by_side() -> None:
    """Otherwise, the arrays of a row would be made once for each entry point."""
    one, other = (EntryPoint(name, "clip_by_norm", dtypes=("float32", "float64")) for name in ("one", "other"))
    planned = plan_rows([one, other], Selection(), 20)

    assert [cell.entry_point for cell in planned] == [one, other] * (len(planned) // 2)
    assert all(first.case.id == second.case.id for first, second in zip(planned[::2], planned[1::2], strict=True))


@pytest.mark.thorough(sample=0)
def test_tails_of_long_tensors_have_one_element_or_more() -> None:
    sizes = {math.prod(g.array.shape) for row in ROWS[::2] for g in row.gradients if g.array is not None}
    for chunk in (4096, 16_384, 65_536):
        tails = {size % chunk for size in sizes if chunk < size < 2 * chunk + 200}
        assert {1, 17} <= tails, (chunk, tails)


def test_excluded_tensors_are_not_zero_even_if_only_one_tensor_counts() -> None:
    rows = [row for row in ROWS if row.levels["relation"] == "at" and row.levels["excluded"] == "x-odd"]
    rows = [row for row in rows if row.levels["number"] in {"n3", "n10"}]
    assert rows
    for row in rows:
        arrays = [(g.need_clip, g.array) for g in row.gradients if g.array is not None]
        assert sum(any(array.data) for included, array in arrays if included) == 1
        assert all(any(array.data) for included, array in arrays if not included)


def test_a_recipe_survives_the_wire() -> None:
    recipe = Recipe("edges", 2, -3, 0, 0, 0)
    array = Array("float32", (70, 3), expand(recipe, "float32", (70, 3)), recipe)
    call = Call("entry point", (Gradient("g0", array), Gradient("g1", None)), {"clip_norm": 1.0})
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


def test_neighbours_of_one_kind_travel_as_one_message() -> None:
    shapes = [(2,), (), (0, 3), (1, 2)]
    recipe = Recipe("numbers", 1)
    arrays = [Array("float32", shape, expand(recipe, "float32", shape), recipe) for shape in shapes]
    call = Call("entry point", tuple(Gradient(f"g{i}", array) for i, array in enumerate((*arrays, None))), {})
    halves = [Array("float32", array.shape, bytes([place] * len(array.data))) for place, array in enumerate(arrays)]

    reply = Reply((*halves, None), inputs=(*arrays, None))
    message = encode_reply(reply, 1, decode_call(encode_call(call, 1, by_recipe=True)))

    # An empty array has the same bits in any case.
    first, empty, last, none = message["gradients"]
    assert (first["shapes"], empty, last["shape"], none) == ([[2], []], {"same": "call"}, [1, 2], None)
    assert message["inputs"] == [{"same": "call", "count": 4}, None]
    assert decode_reply(message, call) == reply


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"data": "AAAA"}, "does not have them"),
        ({"dtype": "float31"}, "no dtype"),
        ({"shapes": [[2], [-1]]}, "length of an axis"),
        ({"shapes": [[2], [1 << 41]]}, "elements along an axis"),
    ],
)
def test_block_that_does_not_fit_is_refused(change: dict[str, Any], match: str) -> None:
    block = {"dtype": "float32", "shapes": [[2], [1]], "data": base64.b64encode(bytes(12)).decode()}
    message = encode_reply(Reply(()), 1)

    assert len(decode_reply({**message, "gradients": [block]}).gradients) == 2
    with pytest.raises(ValueError, match=match):
        decode_reply({**message, "gradients": [{**block, **change}]})


def test_name_for_more_arrays_than_there_are_is_refused() -> None:
    call = Call("entry point", (Gradient("g0", Array("float32", (), bytes(4))),), {})
    message = encode_reply(Reply(()), 1)

    with pytest.raises(ValueError, match="no array"):
        decode_reply({**message, "gradients": [{"same": "call", "count": 2}]}, call)


@pytest.mark.parametrize("items", [[], ["edges"], [1, 2, 3, 4, 5, 6], ["edges", 0, 0, 0, 0, 0.5]])
def test_invalid_recipe_is_refused(items: list[Any]) -> None:
    with pytest.raises(ValueError, match=r"recipe|unpack"):
        decode_recipe(items)


@pytest.mark.parametrize("row", [row for row in list_all_rows() if row.levels["size"] in {"s2", "s4", "s33"}][::60])
def test_whole_call_measurement_equals_element_by_element_measurement(row: RowCase) -> None:
    """Check that both measurements give the same distance for expected results that are rounded to float32 digits."""
    case = row.make()
    prediction = predict(case)
    if not PREFIXES[row.prefix].is_by_norm or None in prediction.norms[:1]:
        return
    results = [
        None if g.array is None else Array(g.array.dtype, g.array.shape, bytes(len(g.array.data)))
        for g in case.gradients
    ]
    slow = measure(case, prediction, results, case.included)
    fast = WholeCall(case).measure(results, exact=dict(case.expectation.parameters)["exact"])
    assert fast.grade == slow.grade
    assert fast.ulp == pytest.approx(slow.ulp, rel=1e-6, abs=0.1)


@pytest.mark.parametrize(
    "factors", [Fraction(1, 3), np.linspace(0.1, 2.0, 100, dtype=np.longdouble)], ids=["one", "many"]
)
def test_distances_are_the_same_in_blocks(factors: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    given = np.random.default_rng(5).standard_normal(100)
    given[17] = 2.0**-1060
    results = np.append(given[:-1] / 3, np.inf)
    factor = round_to_long_double(factors) if isinstance(factors, Fraction) else factors
    whole = [measure_products(given, results, factor, FORMATS[dtype], True) for dtype in ("float32", "float64")]

    monkeypatch.setattr(distances, "BLOCK", 7)

    for before, dtype in zip(whole, ("float32", "float64"), strict=True):
        np.testing.assert_array_equal(measure_products(given, results, factor, FORMATS[dtype], True), before)


@pytest.mark.skipif(not has_long_doubles(), reason="long doubles have too few digits here")
def test_distances_of_subnormal_products_are_within_their_doubt() -> None:
    given = np.arange(1.0, 400.0) * 2.0**-1074
    factor = Fraction(0.1234567)
    results = given * float(factor)
    exact = ExpectedArray(decode(given.tobytes(), "float64"), factor)

    quick = measure_products(given, results, round_to_long_double(factor), FORMATS["float64"])

    assert np.abs(quick - measure_distances(results.tobytes(), exact, "float64")).max() <= DOUBT


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize(
    "dtypes", [("float64",), ("float32",), ("float16",), ("bfloat16", "float16"), ("float32", "float64")], ids="-".join
)
@pytest.mark.parametrize("features", [(), ("excludes", "none_grads", "norm_type"), ("threshold_kinds",)], ids=len)
def test_entry_point_is_asked_for_nothing_impossible(
    operation: str, dtypes: tuple[str, ...], features: tuple[str, ...]
) -> None:
    entry_point = EntryPoint("any", PREFIXES[operation].function, dtypes, features, (1.0, 2.0))

    rows = [row for _, row in list_cases(entry_point)]

    assert len(rows) > 80
    # A NumPy scalar of float64 may change the dtype of a function of float32 alone.
    assert [(row.id, reason) for row in rows if (reason := find_reason(operation, row.words))] == []
