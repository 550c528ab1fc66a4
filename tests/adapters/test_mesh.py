"""Test what each rank of a mesh has of a gradient, how answers are joined, and the collectives of one process."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradclip_adapters.collectives import RankMesh, simulate
from gradclip_adapters.contract import Array, Call, Gradient, Reply, Unsupported, find_numpy_dtype
from gradclip_adapters.mesh import Mesh, check_placement, cut_call, find_part, join_replies, list_gradients, parse_mesh

MESH = "replica=2,shard=2,tensor=2"


def make_gradient(values: object, **placements: int | str) -> Gradient:
    return Gradient("g", Array.of(np.array(values, "float32")), placements=placements)


def answer(call: Call) -> list[Reply]:
    """Return the answer of each rank of a function that changes nothing."""
    ranks = Mesh(parse_mesh(call.options["mesh"])).size
    return [Reply(tuple(g.array for g in cut_call(call, rank).gradients)) for rank in range(ranks)]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("replica", "no mesh"),
        ("a=2,a=2", "no mesh"),
        ("a=x", "no mesh"),
        ("a b=2", "not the name of an axis"),
    ],
)
def test_mistaken_meshes_get_a_line(text: str, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        parse_mesh(text)


@pytest.mark.parametrize(
    ("gradient", "words"),
    [
        (make_gradient([1.0], stage=0), "no axis 'stage'"),
        (make_gradient([1.0], shard=1), "cannot be sharded along its axis 1"),
        (make_gradient([1.0], shard="split"), "not a placement"),
        (make_gradient([1.0], shard="owned by 2"), "no coordinate 2"),
    ],
)
def test_mistaken_placements_get_a_line(gradient: Gradient, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        check_placement(gradient, Mesh(parse_mesh(MESH)))


@pytest.mark.parametrize(
    ("length", "count", "sizes"), [(4, 2, [2, 2]), (3, 2, [2, 1]), (1, 2, [1, 0]), (6, 4, [2, 2, 2, 0]), (0, 2, [0, 0])]
)
def test_parts_are_even_but_for_the_last_ones(length: int, count: int, sizes: list[int]) -> None:
    parts = [range(length)[find_part(length, count, rank)] for rank in range(count)]

    assert [len(part) for part in parts] == sizes
    assert [i for part in parts for i in part] == list(range(length))


@pytest.mark.parametrize(
    "placements",
    [
        {},
        {"shard": 0},
        {"tensor": 2},
        {"shard": 1, "tensor": 1},
        {"shard": 0, "tensor": 2},
        {"replica": 0, "shard": 1, "tensor": 0},
        {"shard": "owned by 1"},
        {"tensor": "only on 0", "shard": 1},
        {"replica": "partial"},
        {"shard": "partial", "tensor": "partial"},
    ],
)
def test_parts_join_to_the_whole(placements: dict[str, int | str]) -> None:
    gradients = (make_gradient(np.arange(42).reshape(3, 7, 2), **placements), make_gradient([1.0]), Gradient("n", None))
    call = Call("x", gradients, {"mesh": MESH})

    joined = join_replies(call, answer(call))

    assert joined.gradients == tuple(g.array for g in call.gradients)
    assert joined.apart == ()


@pytest.mark.parametrize("name", ["float16", "bfloat16", "float64"])
def test_addends_are_exact_and_their_sum_is_rounded(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    dtype = find_numpy_dtype(name)
    half = float(np.finfo("float16").eps if name == "float16" else 2.0**-7 if name == "bfloat16" else 2.0**-52) / 2
    one, even, odd = np.array([1.0, half, 3 * half], "float64").astype(dtype)
    values = np.array([one, -one, 2 * one], dtype)
    call = Call("x", (Gradient("g", Array.of(values, name), placements={"shard": "partial"}),), {"mesh": MESH})
    # A framework's process has no ml_dtypes.
    monkeypatch.setattr("gradclip_adapters.mesh.find_numpy_dtype", np.dtype)

    first, second = (cut_call(call, rank).gradients[0].array for rank in (0, 2))
    assert first is not None
    assert second is not None
    assert [array.numpy().tolist() for array in (first, second)] == [[2.0, -2.0, 4.0], [-1.0, 1.0, -2.0]]

    # Half a unit beyond a number is rounded to the even one of its neighbours.
    replies = answer(call)
    for rank, reply in enumerate(replies):
        part = np.array(
            [one, one, np.nan] if Mesh(parse_mesh(MESH)).find_coordinates(rank)["shard"] else [even, odd, one]
        )
        replies[rank] = replace(reply, gradients=(Array.of(part.astype(dtype), name),))
    joined = join_replies(call, replies).gradients[0]
    assert joined is not None
    np.testing.assert_array_equal(joined.numpy().astype(float), [1.0, 1.0 + 4 * half, np.nan])


def test_owned_gradients_are_left_out_or_none_elsewhere() -> None:
    gradients = (make_gradient([1.0], ranks="owned by 1"), make_gradient([2.0], ranks="only on 1"))
    call = Call("x", gradients, {"mesh": "ranks=2"})

    assert list_gradients(call, 0) == [1]
    assert cut_call(call, 0).gradients[0].array is None
    assert [g.array for g in cut_call(call, 1).gradients] == [g.array for g in gradients]


def test_mesh_that_a_call_does_not_name_is_asked_for() -> None:
    with pytest.raises(Unsupported, match="in which mesh"):
        cut_call(Call("x", ()), 0)


def make_reply(values: list[float], norm: float = 1.0, dtype: str = "float32") -> Reply:
    return Reply((Array.of(np.array(values, dtype)),), Array.of(np.float32(norm)), warnings=("W: x",))


def test_copies_that_drift_apart_are_told() -> None:
    call = Call("x", (make_gradient([1.0, 2.0], shard=0),), {"mesh": "replica=2,shard=2"})

    joined = join_replies(call, [make_reply([value]) for value in (1.0, 2.0, 1.0, 3.0)])

    assert joined.apart == ("returned another result 0 in process 3 than in process 1",)
    assert joined.warnings == ("W: x",)


@pytest.mark.parametrize(
    ("gradients", "replies", "words"),
    [
        ((make_gradient([1.0, 2.0], ranks=0),), [make_reply([1.0]), make_reply([2.0], 1.0, "float64")], "do not fit"),
        (
            (make_gradient([1.0]), make_gradient([2.0], ranks="owned by 0")),
            [Reply((None, None)), Reply((None, None))],
            "returned 2 results in process 1, which has 1 gradients",
        ),
    ],
    ids=["parts", "count"],
)
def test_results_that_do_not_fit_are_malformed(
    gradients: tuple[Gradient, ...], replies: list[Reply], words: str
) -> None:
    assert words in str(join_replies(Call("x", gradients, {"mesh": "ranks=2"}), replies).malformed)


def test_all_nans_are_the_same_and_both_zeros_are_not() -> None:
    call = Call("x", (make_gradient([1.0, 2.0]),), {"mesh": "ranks=2"})
    other_nan = Array("float32", (2,), np.array([0xFFC00001, 0], np.uint32).tobytes())
    nans = [make_reply([np.nan, 0.0], np.nan), Reply((other_nan,), Array.of(np.float32(-np.nan)))]

    assert join_replies(call, nans).apart == ()
    assert join_replies(call, [make_reply([0.0, 1.0], 1.0), make_reply([-0.0, 1.0], 1.0)]).apart


FOUR_RANKS = Mesh({"replica": 2, "shard": 2})


def run(function: Any, mesh: Mesh = FOUR_RANKS, seed: int = 0) -> list[Any]:
    outcomes, mismatch = simulate(mesh, [function] * mesh.size, seed)
    assert mismatch is None
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    return [outcome.value for outcome in outcomes]


def find_mismatch(function: Any) -> str:
    _, mismatch = simulate(FOUR_RANKS, [function] * FOUR_RANKS.size)
    assert mismatch is not None
    return mismatch


def test_each_rank_knows_its_place() -> None:
    found = run(lambda mesh: (mesh.rank, mesh.size, mesh.axes, mesh.coordinates))

    assert found[2] == (2, 4, {"replica": 2, "shard": 2}, {"replica": 1, "shard": 0})


def test_reductions_are_over_the_named_axes() -> None:
    assert run(lambda mesh: mesh.all_reduce(mesh.rank)) == [6] * 4
    assert run(lambda mesh: mesh.all_reduce(mesh.rank, axes="shard")) == [1, 1, 5, 5]
    assert run(lambda mesh: mesh.all_reduce(mesh.rank, "max", axes=("replica",))) == [2, 3, 2, 3]
    assert run(lambda mesh: mesh.all_reduce(mesh.rank, "min", axes=("shard", "replica"))) == [0] * 4


def test_values_keep_their_kind() -> None:
    array = run(lambda mesh: mesh.all_reduce(np.ones(2, np.float16)))[0]
    scalar = run(lambda mesh: mesh.all_reduce(np.float32(0.1)))[0]

    assert (array.dtype, array.tolist()) == (np.float16, [4.0, 4.0])
    assert isinstance(scalar, np.float32)
    assert isinstance(run(lambda mesh: mesh.all_reduce(0.5 if mesh.rank else 0))[0], float)


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda mesh: mesh.all_reduce({"x": 1}), "takes a number or an array of numbers, and not {'x': 1}"),
        (lambda mesh: mesh.all_reduce(None), "and not None"),
        (lambda mesh: mesh.all_reduce(1.0, ["sum"]), "there is no operation ['sum']"),
        (lambda mesh: mesh.all_reduce(1.0, axes=3), "axes are the names of axes, such as ('replica',), and not 3"),
        (lambda mesh: mesh.broadcast(1.0, "first"), "the group has 4 ranks, and no rank 'first'"),
        (lambda mesh: mesh.broadcast(1.0, 4), "the group has 4 ranks, and no rank 4"),
        (lambda mesh: mesh.broadcast(1.0, 2, axes="shard"), "the group has 2 ranks, and no rank 2"),
        (lambda mesh: mesh.all_reduce(1.0, axes="stage"), "no axis 'stage'; it has 'replica', 'shard'"),
        (lambda mesh: mesh.all_reduce(1.0, "mean"), "no operation 'mean': choose from sum, max, min"),
        (lambda mesh: mesh.count_copies({"stage": 0}), "no axis 'stage'"),
    ],
)
def test_mistaken_arguments_get_a_line(function: Any, words: str) -> None:
    outcomes, _ = simulate(FOUR_RANKS, [function] * 4)

    assert all(isinstance(outcome.error, (TypeError, ValueError)) for outcome in outcomes), outcomes
    assert [words in str(outcome.error) for outcome in outcomes] == [True] * 4, outcomes


def test_values_of_other_ranks_are_gathered_and_sent() -> None:
    gathered = run(lambda mesh: mesh.all_gather(np.array([mesh.rank]), axes="replica"))

    assert [each.tolist() for each in gathered[3]] == [[1], [3]]
    assert run(lambda mesh: mesh.all_gather({"rank": mesh.rank, "kept": None}))[1][3] == {"rank": 3, "kept": None}
    assert run(lambda mesh: mesh.all_gather(None if mesh.rank else "x")) == [["x", None, None, None]] * 4
    assert run(lambda mesh: mesh.all_gather([[1], [2] * mesh.rank]))[0][2] == [[1], [2, 2]]
    assert run(lambda mesh: mesh.broadcast("no number" if mesh.rank == 2 else None, 2)) == ["no number"] * 4
    assert run(lambda mesh: mesh.broadcast(mesh.rank, 1, axes="shard")) == [1, 1, 3, 3]


def test_order_of_additions_changes_and_is_the_same_on_all_ranks_and_in_parallel_groups() -> None:
    mesh, values = Mesh({"replica": 2, "shard": 4}), np.array([1.0, 2.0**53, 1.0, -(2.0**53)])

    def add(mesh: RankMesh) -> list[float]:
        return [mesh.all_reduce(float(values[mesh.rank % 4]), axes="shard") for _ in range(30)]

    found = run(add, mesh)

    assert found == [found[0]] * 8
    assert len(set(found[0])) > 1
    assert run(add, mesh) == found
    assert run(add, mesh, seed=1) != found


def test_values_are_copied_when_a_rank_enters() -> None:
    def clip(mesh: RankMesh) -> Any:
        mine = np.array([float(mesh.rank)])
        total = mesh.all_reduce(mine)
        total += 100
        return mesh.all_reduce(mine)

    assert [each.tolist() for each in run(clip)] == [[6.0]] * 4


def test_number_of_copies_is_that_of_the_replicated_axes() -> None:
    counted = run(lambda mesh: [mesh.count_copies(p) for p in ({}, {"shard": 0}, {"shard": "owned", "replica": 1})])

    assert counted[0] == [4, 2, 1]


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda mesh: mesh.rank or mesh.all_reduce(1.0), 'rank 0 in all_reduce("sum") of a number at'),
        (lambda mesh: mesh.rank or mesh.all_reduce(1.0), "ranks 1 to 3 returned"),
        (lambda mesh: mesh.all_reduce(1.0, "max" if mesh.rank == 1 else "sum"), 'rank 1 in all_reduce("max")'),
        (lambda mesh: mesh.all_reduce(np.ones(1 + mesh.rank % 2)), "ranks 1 and 3 in"),
        (lambda mesh: mesh.all_reduce(np.ones(1, "f4" if mesh.rank else "f8")), "float64 of shape (1,)"),
        (lambda mesh: mesh.all_reduce(1.0, axes="shard" if mesh.rank else "replica"), "over shard"),
        (lambda mesh: mesh.all_gather(1.0) if mesh.rank else mesh.all_reduce(1.0), "all_gather of a number at"),
        (lambda mesh: mesh.broadcast(1.0, mesh.rank % 2), "broadcast from 1"),
        (lambda mesh: mesh.all_reduce(1.0) if mesh.rank else {}["none"], "rank 0 raised KeyError"),
    ],
)
def test_collectives_that_do_not_match_are_reported(function: Any, words: str) -> None:
    before = threading.active_count()

    assert words in find_mismatch(function)
    assert threading.active_count() == before


def test_report_names_the_line_of_the_caller() -> None:
    def clip(mesh: RankMesh) -> None:
        if mesh.rank == 0:
            mesh.all_reduce(1.0)

    line = clip.__code__.co_firstlineno + 2

    assert f"test_mesh.py:{line}" in find_mismatch(clip)


def test_function_that_catches_everything_ends() -> None:
    def clip(mesh: RankMesh) -> None:
        for _ in range(3):
            try:
                if mesh.rank:
                    mesh.all_reduce(1.0)
            except BaseException:  # noqa: BLE001, S110 - as functions under test may do
                pass

    assert "rank 0 returned" in find_mismatch(clip)
