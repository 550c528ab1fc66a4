"""Check the passes for GPUs without a GPU: their table of chunks, what they send and launch, and the CUDA source.

The CUDA source for CuPy is compiled as C++ with one thread in each block, and its results are compared with NumPy's.
"""

from __future__ import annotations

import ctypes
import math
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradclip_spec import clip_by_value, kernels
from gradclip_spec.kernels.fused import CHUNK, TABLES, Coefficients, FusedLoops, make_table


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
        return [x.ctypes.data for x in arrays]

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


SOURCE = Path(str(kernels.__file__)).with_name("passes.cu")
#: What CUDA defines, for one thread. A program of a kernel runs after the other.
CUDA = """
#include <cmath>
struct Index { unsigned x; };
extern "C" { Index blockIdx, gridDim; }
static const Index threadIdx = {0}, blockDim = {1};
#define __global__
#define __device__ static
#define __shared__ static
#define __syncthreads()
#define PLAIN
"""
#: The types of the arguments of each kernel: an integer, an array or a number.
ARGUMENTS = {
    "sum_squares": "iaaaaiiii",
    "take_roots": "aaaai",
    "scale": "iiaannii" + "iii",
    "clamp": "iiannii" + "i",
    "copy_to_float64": "aai",
    "copy_from_float64": "aai",
}
TYPES = {"i": ctypes.c_longlong, "a": ctypes.c_void_p, "n": ctypes.c_double}


class LoopsOnTheHost(FakeLoops):
    """The passes over NumPy arrays of float32, by the kernels of the source."""

    def __init__(self, library: ctypes.CDLL) -> None:
        super().__init__()
        self.kernels = library

    def launch(self, kernel: str, device: Any, programs: int, dtype: str | None, arguments: Any) -> None:
        given = list(arguments)
        if dtype is not None:
            given[-1] = isinstance(given[0], int)
        given = [each.ctypes.data if isinstance(each, np.ndarray) else each for each in given]
        function = getattr(self.kernels, kernel)
        function.argtypes = [TYPES[letter] for letter in ARGUMENTS[kernel]]
        function.restype = None
        ctypes.c_uint.in_dll(self.kernels, "gridDim").value = programs
        for program in range(programs):
            ctypes.c_uint.in_dll(self.kernels, "blockIdx").value = program
            function(*given)


@pytest.fixture(scope="module")
def loops(tmp_path_factory: pytest.TempPathFactory) -> LoopsOnTheHost:
    compiler = shutil.which("g++") or shutil.which("clang++")
    if compiler is None:
        pytest.skip("a C++ compiler is missing: g++ or clang++")
    folder = tmp_path_factory.mktemp("cuda")
    (folder / "passes.cpp").write_text(CUDA + SOURCE.read_text(encoding="utf-8"), encoding="utf-8")
    defined = [f"-DCHUNK={CHUNK}", "-DTHREADS=1", "-DPACKET=500"]
    # Unlike CUDA, C++ may keep no two roundings apart without `-ffp-contract=off`.
    options = ["-shared", "-fPIC", "-O1", "-ffp-contract=off", "-w", *defined]
    subprocess.run([compiler, *options, "passes.cpp", "-o", "passes.so"], cwd=folder, check=True)
    return LoopsOnTheHost(ctypes.CDLL(str(folder / "passes.so")))


def make_arrays() -> list[np.ndarray[Any, Any]]:
    random = np.random.default_rng(3)
    arrays = [random.standard_normal(shape).astype(np.float32) for shape in [(70_000,), (3, 5), (0,), (), (CHUNK,)]]
    arrays[1][0] = [-0.0, 2.0**-149, -(2.0**-140), 1e-30, 0.0]
    return [np.asarray(x) for x in arrays]


def clip(loops: FusedLoops, arrays: Any, limit: float, eps: float, each: bool, inplace: bool) -> tuple[Any, Any]:
    names = ["float32"] * len(arrays)
    norms = loops.measure(arrays, names, each)
    targets = arrays if inplace else list(map(np.empty_like, arrays))
    loops.scale(arrays, targets, names, Coefficients(norms.high, limit, eps, norms.upload), each)
    return targets, norms.totals


def assert_close(results: Any, expected: Any) -> None:
    """Compare arrays. The norms are summed in another order, so that one rounding of an element may differ."""
    for x, y in zip(results, expected, strict=True):
        np.testing.assert_array_max_ulp(x, y, maxulp=1)
        np.testing.assert_array_equal(np.signbit(x), np.signbit(y))


def assert_equal(results: Any, expected: Any) -> None:
    """Compare arrays bit for bit, apart from the bits of NaN."""
    for x, y in zip(results, expected, strict=True):
        np.testing.assert_array_equal(x, y)
        np.testing.assert_array_equal(np.signbit(x), np.signbit(y))


def measure(arrays: Any) -> float:
    """Return the norm of all elements, in float64."""
    return math.sqrt(math.fsum(float(np.vdot(x, x)) for x in (each.astype(np.float64) for each in arrays)))


def clip_by_formula(arrays: Any, limit: float, eps: float) -> list[Any]:
    """Return products in float64, rounded once."""
    divisor = measure(arrays) + eps
    coefficient = 1.0 if divisor <= limit else limit / divisor
    with np.errstate(all="ignore"):
        return [(x.astype(np.float64) * coefficient).astype(np.float32) for x in arrays]


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("limit", [0.0, 2.0**-140, 1.0, 300.0, 1e30, math.inf])
def test_kernels_scale_by_the_formula(loops: LoopsOnTheHost, limit: float, inplace: bool) -> None:
    clipped, total = clip(loops, make_arrays(), limit, 1e-6, False, inplace)
    assert total == np.float32(measure(make_arrays()))
    assert_close(clipped, clip_by_formula(make_arrays(), limit, 1e-6))
    clipped, _ = clip(loops, make_arrays(), limit, 0.0, True, inplace)
    assert_close(clipped, [clip_by_formula([x], limit, 0.0)[0] for x in make_arrays()])


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_kernels_pass_on_what_is_not_finite(loops: LoopsOnTheHost, bad: float) -> None:
    arrays = [np.array([3.0, bad], np.float32), np.array([-4.0], np.float32)]
    expected = clip_by_formula(arrays, 1.0, 0.0)
    clipped, total = clip(loops, arrays, 1.0, 0.0, False, True)

    np.testing.assert_array_equal([total, *clipped[0], *clipped[1]], [np.float32(bad), *expected[0], *expected[1]])


@pytest.mark.parametrize("bounds", [(-1.0, 1.0), (0.0, 0.5), (-(2.0**-145), 2.0**-140), (-math.inf, 0.0)])
def test_kernel_clips_by_value(loops: LoopsOnTheHost, bounds: tuple[float, float]) -> None:
    arrays = make_arrays()
    arrays[1][1, :2] = [math.nan, math.inf]
    targets = list(map(np.empty_like, arrays))
    loops.clamp(arrays, targets, ["float32"] * len(arrays), {"float32": bounds})

    assert_equal(targets, clip_by_value(arrays, bounds[1], bounds[0]))


@pytest.mark.parametrize("place", [0, 1])
def test_single_array_is_passed_by_its_address(loops: LoopsOnTheHost, place: int) -> None:
    arrays = make_arrays()[place : place + 1]
    clipped, _ = clip(loops, arrays, 1.0, 0.0, False, False)

    assert_close(clipped, clip_by_formula(arrays, 1.0, 0.0))


def test_conversions_keep_subnormal_numbers(loops: LoopsOnTheHost) -> None:
    narrow = np.array([2.0**-149, -(2.0**-127), 0.1, math.inf], np.float32)
    wide, back = np.empty(4), np.empty(4, np.float32)
    loops.launch("copy_to_float64", "gpu", 4, None, (narrow, wide, 4))
    loops.launch("copy_from_float64", "gpu", 4, None, (wide, back, 4))

    assert_equal([wide, back], [narrow.astype(np.float64), narrow])
