"""Test collectives in one process: their results, and the reports of ranks that would wait for ever."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest

from gradclip_adapters.collectives import RankMesh, simulate
from gradclip_adapters.mesh import Mesh

MESH = Mesh({"replica": 2, "shard": 2})


def run(function: Any, mesh: Mesh = MESH, seed: int = 0) -> list[Any]:
    outcomes, mismatch = simulate(mesh, [function] * mesh.size, seed)
    assert mismatch is None
    for outcome in outcomes:
        if outcome.error is not None:
            raise outcome.error
    return [outcome.value for outcome in outcomes]


def find_mismatch(function: Any, mesh: Mesh = MESH) -> str:
    _, mismatch = simulate(mesh, [function] * mesh.size)
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


def test_gather_and_broadcast() -> None:
    gathered = run(lambda mesh: mesh.all_gather(np.array([mesh.rank]), axes="replica"))

    assert [each.tolist() for each in gathered[3]] == [[1], [3]]
    assert run(lambda mesh: mesh.broadcast("no number" if mesh.rank == 2 else None, 2)) == ["no number"] * 4
    assert run(lambda mesh: mesh.broadcast(mesh.rank, 1, axes="shard")) == [1, 1, 3, 3]


def test_other_objects_are_gathered_and_not_reduced() -> None:
    gathered = run(lambda mesh: mesh.all_gather({"rank": mesh.rank, "kept": None}))

    assert gathered[1][3] == {"rank": 3, "kept": None}
    assert run(lambda mesh: mesh.all_gather(None if mesh.rank else "x")) == [["x", None, None, None]] * 4
    assert run(lambda mesh: mesh.all_gather([[1], [2] * mesh.rank]))[0][2] == [[1], [2, 2]]


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
    outcomes, _ = simulate(Mesh({"replica": 2, "shard": 2}), [function] * 4)

    assert all(isinstance(outcome.error, (TypeError, ValueError)) for outcome in outcomes), outcomes
    assert [words in str(outcome.error) for outcome in outcomes] == [True] * 4, outcomes


def test_parallel_groups_add_in_the_same_order() -> None:
    values = np.array([1.0, 2.0**53, 1.0, -(2.0**53)])

    def add(mesh: RankMesh) -> list[float]:
        return [mesh.all_reduce(float(values[mesh.rank % 4]), axes="shard") for _ in range(30)]

    found = run(add, Mesh({"replica": 2, "shard": 4}))

    assert found[0] == found[4]
    assert len(set(found[0])) > 1


def test_values_are_copied_when_a_rank_enters() -> None:
    def clip(mesh: RankMesh) -> Any:
        mine = np.array([float(mesh.rank)])
        total = mesh.all_reduce(mine)
        total += 100
        return mesh.all_reduce(mine)

    assert [each.tolist() for each in run(clip)] == [[6.0]] * 4


def test_order_of_additions_changes_and_is_the_same_on_all_ranks() -> None:
    values = np.array([1.0, 2.0**53, 1.0, -(2.0**53)])

    def add(mesh: RankMesh) -> list[float]:
        return [mesh.all_reduce(float(values[mesh.rank])) for _ in range(30)]

    found = run(add)

    assert found[0] == found[1] == found[2] == found[3]
    assert len(set(found[0])) > 1
    assert run(add) == found
    assert run(add, seed=1) != found


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

    assert f"test_collectives.py:{line}" in find_mismatch(clip)


def test_function_that_catches_everything_ends() -> None:
    def clip(mesh: RankMesh) -> None:
        for _ in range(3):
            try:
                if mesh.rank:
                    mesh.all_reduce(1.0)
            except BaseException:  # noqa: BLE001, S110 - as functions under test may do
                pass

    assert "rank 0 returned" in find_mismatch(clip)
