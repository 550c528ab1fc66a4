"""Test the norm of gradients that several ranks share, from the contributions of each rank."""

from __future__ import annotations

import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import array_api_compat
import numpy as np
import pytest

from gradclip_adapters.collectives import RankMesh, simulate
from gradclip_adapters.mesh import Mesh
from gradclip_spec import clip_by_global_norm, global_norm, norm_contribution

LARGE = {"float32": 2.0**120, "float64": 2.0**1000}


def list_parts(backend: Any, dtype: str) -> list[list[Any]]:
    """Return the gradients of four ranks: ordinary ones, large and small ones, zeros, and none."""
    return [
        [backend.array([3.0, -0.1], dtype), backend.array([[4.0]], dtype)],
        [backend.array([LARGE[dtype], 1 / LARGE[dtype]], dtype)],
        [backend.array([0.0], dtype), None],
        [backend.array([], dtype)],
    ]


def gather(rows: list[Any]) -> Any:
    """Return the contributions of all ranks as rows of one array, as a collective does."""
    return array_api_compat.array_namespace(rows[0]).stack(rows)


# The contributions of arrays of JAX and CuPy need a session of their own, and Dask gathers its own chunks.
@pytest.mark.thorough(sample=8)
@pytest.mark.only_where(lambda backend: backend.name not in ("jax", "dask", "cupy", "torch"))
@pytest.mark.parametrize("norm_type", [1, 2, 3, math.inf])
def test_clip_of_the_parts_is_the_part_of_the_clip(backend: Any, norm_type: float) -> None:
    for dtype in backend.dtypes:
        if dtype not in LARGE:
            continue
        parts = list_parts(backend, dtype)
        rows = gather([norm_contribution(part, norm_type=norm_type) for part in parts])
        whole, total = clip_by_global_norm([x for part in parts for x in part], 1.0, norm_type=norm_type)
        expected = iter(whole)

        for part in parts:
            clipped, norm = clip_by_global_norm(part, 1.0, norm_type=norm_type, contributions=rows)

            assert float(backend.read(norm)) == pytest.approx(float(backend.read(total)), rel=2.0**-52)
            for result in clipped:
                wanted = next(expected)
                if wanted is not None:
                    np.testing.assert_allclose(backend.read(result), backend.read(wanted), rtol=2.0**-22)


def test_order_of_the_rows_does_not_matter() -> None:
    rows = np.stack([norm_contribution([np.array([x])]) for x in (1e200, 1.0, 1e-200, 3e199)])

    totals = {
        float(global_norm([np.array([1.0])], contributions=rows[order])) for order in ([0, 1, 2, 3], [3, 2, 1, 0])
    }

    assert totals == {math.hypot(1e200, 3e199)}


def clip_with_mpi(communicator: Any) -> tuple[list[list[float]], float]:
    """Clip on one of two ranks that both have a bias of 3, and 4 or 12 as their part of a weight."""
    first = communicator.rank == 0
    grads, counts_here = [np.array([3.0]), np.array([4.0 if first else 12.0])], [first, True]
    # docs/how-to/own-collectives.md: begin
    row = norm_contribution(grads, need_clip=counts_here)
    rows = np.stack(communicator.allgather(row))
    clipped, total_norm = clip_by_global_norm(grads, 1.0, contributions=rows)
    # docs/how-to/own-collectives.md: end
    return [x.tolist() for x in clipped], float(total_norm)


#: What the two ranks get.
RESULTS = [([[3 / 13], [4 / 13]], 13.0), ([[3 / 13], [12 / 13]], 13.0)]


def test_page_shows_what_each_rank_does() -> None:
    def clip(mesh: RankMesh) -> tuple[list[list[float]], float]:
        return clip_with_mpi(SimpleNamespace(allgather=mesh.all_gather, rank=mesh.rank))

    outcomes, mismatch = simulate(Mesh({"ranks": 2}), [clip] * 2)

    assert mismatch is None
    assert [outcome.value for outcome in outcomes] == RESULTS


def test_page_is_right_with_mpi() -> None:
    pytest.importorskip("mpi4py", reason="mpi4py is not installed")
    # Packages of MPI put the program beside Python.
    launcher = shutil.which("mpiexec", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    if launcher is None:
        pytest.skip("there is no mpiexec")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [launcher, "-n", "2", sys.executable, __file__]

    done = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE, text=True, timeout=60)

    assert sorted(done.stdout.splitlines(), reverse=True) == sorted(map(repr, RESULTS), reverse=True)


def test_rank_without_gradients_contributes_nothing() -> None:
    rows = np.stack([norm_contribution([]), norm_contribution([None]), norm_contribution([np.array([3.0, 4.0])])])

    assert clip_by_global_norm([], 1.0, contributions=rows)[0] == []
    assert float(global_norm([np.array([3.0, 4.0])], contributions=rows)) == 5.0


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_number_that_is_not_finite_reaches_every_rank(bad: float) -> None:
    rows = np.stack([norm_contribution([np.array([x], np.float32)]) for x in (1.0, bad)])

    (clipped,), total = clip_by_global_norm([np.array([1.0], np.float32)], 0.5, contributions=rows)

    np.testing.assert_equal(float(total), bad)
    np.testing.assert_equal(clipped.tolist(), [math.nan if math.isnan(bad) else 0.0])


@pytest.mark.parametrize("rows", [np.zeros(4), np.zeros((2, 3)), 1.0])
def test_other_shapes_are_refused(rows: Any) -> None:
    with pytest.raises(ValueError, match="row of 4 numbers for each rank"):
        clip_by_global_norm([np.array([1.0])], 1.0, contributions=rows)


def test_other_dtypes_are_refused() -> None:
    grads = [np.array([3e30, 4e30], np.float32)]
    rows = np.stack([norm_contribution(grads)])

    with np.errstate(over="ignore"), pytest.raises(ValueError, match="in float64, got float32; only gather the rows"):
        clip_by_global_norm(grads, 1.0, contributions=rows.astype(np.float32), inplace=True)

    assert grads[0].tolist() == [np.float32(3e30), np.float32(4e30)]


def main() -> None:
    """Clip as one rank of MPI, and print the results."""
    from mpi4py import MPI

    # Write a line at once, because the ranks share the output.
    os.write(1, f"{clip_with_mpi(MPI.COMM_WORLD)}\n".encode())


if __name__ == "__main__":
    main()
