"""Check the table that divides arrays into chunks for the passes on a GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradclip_spec.kernels.fused import CHUNK, TABLES, Coefficients, FusedLoops, make_table


@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize(
    ("sizes", "names"),
    [
        ([1], ["float32"]),
        ([CHUNK, CHUNK + 1, 0, 3 * CHUNK], ["float32"] * 4),
        ([CHUNK + 5, 7, 0, 2 * CHUNK, 1], ["float32", "float16", "float16", "float32", "bfloat16"]),
        ([0, 9], ["float16", "float32"]),
    ],
)
def test_every_element_is_in_one_chunk_of_its_array_and_dtype(sizes: list[int], names: list[str], each: bool) -> None:
    table = make_table(sizes, names, each)
    owners, numbers, lengths, groups = table.rows[: 4 * table.chunks].reshape(4, -1)
    firsts, lasts = table.rows[4 * table.chunks :].reshape(2, -1)
    counts = [np.zeros(size, int) for size in sizes]
    for owner, number, length in zip(owners, numbers, lengths, strict=True):
        counts[owner][number * CHUNK : number * CHUNK + length] += 1

    assert all((count == 1).all() for count in counts)
    assert 0 < lengths.min() <= lengths.max() <= CHUNK
    named = [(name, chunk) for name, first, count in table.ranges for chunk in range(first, first + count)]
    assert named == [(names[owner], chunk) for chunk, owner in enumerate(owners)]
    # Chunks are added up in order, so the sum of a group does not depend on other arrays.
    assert list(groups) == (list(owners) if each else [0] * table.chunks)
    assert [list(groups[first:last]) for first, last in zip(firsts, lasts, strict=True)] == [
        [group] * list(groups).count(group) for group in range(table.groups)
    ]
    assert table.groups == (len(sizes) if each else 1)


class FakeLoops(FusedLoops):
    """Passes over NumPy arrays that compute nothing. They note what is sent and launched."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: list[np.ndarray[Any, Any]] = []
        self.launched: list[tuple[str, int]] = []
        self.recording = False

    def list_sizes(self, arrays: Any) -> list[int]:
        return [x.size for x in arrays]

    def list_addresses(self, arrays: Any) -> list[int]:
        return [x.__array_interface__["data"][0] for x in arrays]

    def find_device(self, array: Any) -> Any:
        return "gpu"

    def allocate(self, device: Any, shape: tuple[int, ...], dtype: str) -> Any:
        return np.empty(shape, dtype)

    def send(self, device: Any, numbers: np.ndarray[Any, Any]) -> Any:
        self.sent.append(numbers)
        return numbers

    def is_recording(self, device: Any) -> bool:
        return self.recording

    def launch(self, kernel: str, device: Any, programs: int, dtype: str | None, arguments: Any) -> None:
        self.launched.append((kernel, programs))


def test_clip_of_many_arrays_sends_one_list_of_addresses_and_launches_three_kernels() -> None:
    loops, arrays = FakeLoops(), [np.ones(5, np.float32) for _ in range(1000)]
    names = ["float32"] * 1000
    for turn in range(2):
        loops.sent.clear()
        loops.launched.clear()
        norms = loops.measure(arrays, names, each=False)
        coefficient = Coefficients(norms.high, 1.0, 0.0, norms.upload)
        loops.scale(arrays, arrays, names, coefficient, each=False)
        # The table is sent once.
        assert [x.dtype for x in loops.sent] == [np.int64, np.int32][: 2 - turn]
        assert loops.launched == [("sum_squares", 1000), ("take_roots", 1), ("scale", 1000)]


def test_only_the_last_tables_are_kept_apart_from_those_of_graphs() -> None:
    loops = FakeLoops()
    for size in range(1, 2 * TABLES):
        loops.measure([np.ones(size, np.float32)], ["float32"], each=False)
    assert len(loops._tables) == TABLES
    loops.recording = True
    for size in (1, 2 * TABLES - 1):
        loops.measure([np.ones(size, np.float32)], ["float32"], each=False)
    # The table of the first size was made anew, and belongs to the graph.
    assert len(loops._tables) == TABLES
    assert len(loops._recorded) == 2


@pytest.mark.parametrize(("gap", "expected"), [(0, True), (1, True), (2, False), (3, False)])
def test_overlap_is_found_whatever_the_order(gap: int, expected: bool) -> None:
    base = np.ones(10, np.float32)
    arrays = [base[gap : gap + 2], base[:0], base[:2], base[8:]]

    loops = FakeLoops()
    assert loops.may_overlap(loops.upload(arrays), ["float32"] * 4) == expected


@pytest.mark.parametrize(("sizes", "expected"), [([CHUNK], 1), ([CHUNK + 1], 2), ([5, 5], 2)])
def test_norm_of_a_single_chunk_takes_one_kernel(sizes: list[int], expected: int) -> None:
    loops = FakeLoops()
    loops.measure([np.ones(size, np.float32) for size in sizes], ["float32"] * len(sizes), each=False)

    assert len(loops.launched) == expected
