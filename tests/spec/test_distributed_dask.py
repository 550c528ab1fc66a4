"""Check Dask arrays on a cluster of two processes. Each chunk stays on its worker, and a norm reads it once."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dask
import dask.array
import distributed
import numpy as np
import pytest

from gradclip_spec import clip_by_global_norm, clip_by_norm, global_norm


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """Start two workers, each in a separate process."""
    options = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options, host="127.0.0.1") as running:
        yield running


@pytest.fixture
def client(cluster: Any) -> Iterator[Any]:
    """Return a client that sends every computation to the cluster."""
    with distributed.Client(cluster) as connected:
        yield connected


@pytest.fixture
def results(client: Any, cluster: Any) -> Iterator[dict[str, int]]:
    """Return the size in bytes of the result of each task that the cluster has run."""
    sizes: dict[str, int] = {}

    class Recorder(distributed.SchedulerPlugin):  # type: ignore[misc]
        def transition(self, key: Any, start: str, finish: str, *args: Any, **options: Any) -> None:
            if finish == "memory" and "nbytes" in options:
                sizes[str(key)] = options["nbytes"]

    recorder = Recorder()
    cluster.scheduler.add_plugin(recorder, name="recorder")
    yield sizes
    cluster.scheduler.remove_plugin("recorder")


def make_chunked(values: np.ndarray[Any, Any], chunks: Any) -> Any:
    """Return a Dask array of values."""
    return dask.array.from_array(values, chunks=chunks)


def load_chunks(folder: Path, dtype: str) -> Any:
    """Return a Dask array of eight chunks. Each chunk writes a file whenever it is computed."""

    def load(block_info: Any = None) -> Any:
        place = block_info[None]["chunk-location"]
        folder.joinpath(f"{place[0]}-{place[1]}-{uuid.uuid4()}").touch()
        return np.random.default_rng(place).standard_normal((300, 200)).astype(dtype)

    chunks = ((300,) * 4, (200,) * 2)
    return dask.array.map_blocks(load, chunks=chunks, dtype=dtype, meta=np.empty((0, 0), dtype))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_results_equal_those_of_one_process(client: Any, dtype: str) -> None:
    random = np.random.default_rng(0)
    values = [random.standard_normal(shape).astype(dtype) for shape in [(70, 33), (101,), (5, 6, 7), ()]]
    arrays = [make_chunked(x, chunks) for x, chunks in zip(values, [(20, 11), 13, (5, 2, 7), ()], strict=True)]
    clipped, total_norm = clip_by_global_norm([*arrays, None], 1.25)
    expected, alone = clip_by_global_norm([*values, None], 1.25)

    assert clipped.pop() is expected.pop() is None
    np.testing.assert_array_max_ulp(np.asarray(total_norm), alone, 1)
    for x, y in zip(clipped, expected, strict=True):
        np.testing.assert_array_max_ulp(np.asarray(x), y, 1 if dtype != "float64" else 2)
        assert x.dtype == dtype


@pytest.mark.parametrize(
    "values",
    [
        [1e200, 1e-200, 3e-310, 1.0],
        [3e-200, 0.0, 4e-200, 0.0],
        [1e307, 0.0, 1e-307, 1e307],
        [0.0, 0.0, 0.0, 0.0],
        [1e200, math.inf, 1e-200, 0.0],
        [1e200, math.inf, math.nan, 0.0],
    ],
)
@pytest.mark.parametrize("norm_type", [1, 2, 3, math.inf])
def test_chunks_of_different_scales(values: list[float], norm_type: float) -> None:
    whole = np.repeat(values, 3)
    alone = float(global_norm(whole, norm_type=norm_type))
    total = float(global_norm(make_chunked(whole, 3), norm_type=norm_type).compute(scheduler="synchronous"))

    assert total == alone or abs(total - alone) <= 4 * np.spacing(alone) or (math.isnan(total) and math.isnan(alone))


def test_results_equal_those_of_one_process_bit_by_bit() -> None:
    random = np.random.default_rng(1)
    values = [random.standard_normal(shape).astype(np.float32) for shape in [(70, 33), (0, 3), (101,), ()]]
    arrays = [make_chunked(x, 17) for x in values]
    arrays.append(arrays[0].sum())
    values.append(arrays[-1].compute(scheduler="synchronous"))

    for x, y in zip(clip_by_norm(arrays, 0.75), clip_by_norm(values, 0.75), strict=True):
        assert np.array_equal(x.compute(scheduler="synchronous"), y)


def test_graphs_stay_small() -> None:
    """Check the size of graphs. Dask spends time on each layer of each graph, and a clip joins a thousand arrays."""
    arrays = [make_chunked(np.full(6, 2.0 + index), 2) for index in range(10)]
    each = clip_by_norm(arrays, 1.0)
    clipped, total_norm = clip_by_global_norm(arrays, 1.0)

    # The layers of the arrays themselves, of the norm and of the product or of the rounded norm.
    assert {len(x.dask.layers) for x in each} == {1 + 2}
    assert {len(x.dask.layers) for x in clipped} == {10 + 2}
    assert len(total_norm.dask.layers) == 10 + 2


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_workers_send_only_numbers(client: Any, results: dict[str, int], tmp_path: Path, dtype: str) -> None:
    total = float(global_norm(load_chunks(tmp_path, dtype)))

    # Each of the eight chunks was made once. No task returned more than four float64 numbers for each chunk.
    assert len(list(tmp_path.iterdir())) == 8
    assert total > 0
    assert results
    largest = max(results, key=lambda key: results[key])
    assert results[largest] <= 8 * 4 * 8 + 128, f"{largest} holds {results[largest]} bytes"


def test_example_of_the_manual(client: Any) -> None:
    # docs/how-to/use-the-reference.md: begin
    import dask.array

    x = dask.array.random.default_rng(0).standard_normal((4_000, 1_000), chunks=1_000)
    clipped, total_norm = dask.persist(*clip_by_global_norm([x], 1.0))
    # docs/how-to/use-the-reference.md: end
    assert abs(float(total_norm) / 2000 - 1) < 0.01
    assert abs(float(global_norm(clipped)) - 1) <= 2.0**-50


def test_clipped_chunks_stay_on_the_workers(client: Any, results: dict[str, int], tmp_path: Path) -> None:
    x = load_chunks(tmp_path, "float32")
    clipped, total_norm = dask.persist(*clip_by_global_norm([x], 1.0))
    futures = distributed.futures_of(clipped)
    distributed.wait(futures)
    places = client.who_has(futures)

    assert len(list(tmp_path.iterdir())) == 8
    assert len({worker for workers in places.values() for worker in workers}) == 2
    assert max(results.values()) <= x.nbytes / 8 + 128
    assert float(total_norm) > 1
    assert abs(float(global_norm(clipped)) - 1) <= 2.0**-22
