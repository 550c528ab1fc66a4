"""Test what each rank of a mesh has of a gradient, and how the answers of the ranks are joined."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gradclip_adapters.contract import Array, Call, Gradient, Reply, find_numpy_dtype
from gradclip_adapters.mesh import Mesh, check_placement, cut_call, find_part, join_replies, list_gradients, parse_mesh

MESH = "replica=2,shard=2,tensor=2"


def make_gradient(values: object, **placements: int | str) -> Gradient:
    return Gradient("g", Array.of(np.array(values, "float32")), placements=placements)


def answer(call: Call, **more: Array) -> list[Reply]:
    """Return the answer of each rank of a function that changes nothing."""
    ranks = Mesh(parse_mesh(call.options["mesh"])).size
    return [Reply(tuple(g.array for g in cut_call(call, rank).gradients), **more) for rank in range(ranks)]  # type: ignore[arg-type]


def test_last_axis_varies_fastest() -> None:
    mesh = Mesh({"replica": 2, "shard": 3})

    assert [mesh.find_coordinates(rank) for rank in (0, 1, 4)] == [
        {"replica": 0, "shard": 0},
        {"replica": 0, "shard": 1},
        {"replica": 1, "shard": 1},
    ]
    assert mesh.find_group(4, ["shard"]) == (3, 4, 5)
    assert mesh.find_group(4, ["replica"]) == (1, 4)
    assert mesh.find_group(4, []) == (4,)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("replica", "no mesh"),
        ("a=2,a=2", "no mesh"),
        ("a=x", "no mesh"),
        ("a=3,b=3", "at most 8 ranks"),
        ("a=0", "above 0"),
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


def test_copies_that_drift_apart_are_told() -> None:
    call = Call("x", (make_gradient([1.0, 2.0], shard=0),), {"mesh": "replica=2,shard=2"})
    replies = answer(call)
    replies[3] = Reply((Array.of(np.array([3.0], "float32")),))

    assert join_replies(call, replies).apart == ("returned another result 0 in process 3 than in process 1",)


def test_wrong_number_of_results_on_one_rank_is_told() -> None:
    call = Call("x", (make_gradient([1.0]), make_gradient([2.0], ranks="owned by 0")), {"mesh": "ranks=2"})
    replies = answer(call)
    replies[1] = replies[0]

    assert join_replies(call, replies).malformed == "returned 2 results in process 1, which has 1 gradients"
