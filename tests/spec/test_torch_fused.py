"""Check the fused passes over torch tensors: on a GPU, or on the CPU in Triton's interpreter (TRITON_INTERPRET=1)."""

from __future__ import annotations

import importlib.util
import math
import os
from collections.abc import Callable
from typing import Any

import pytest
import torch

from gradclip_spec import (
    backends,
    clip_by_block_rms,
    clip_by_global_norm,
    clip_by_norm,
    clip_by_value,
    clip_per_example,
    clip_unitwise,
    global_norm,
)
from gradclip_spec.backends.torch import Torch

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu"
pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None or (DEVICE == "cpu" and not INTERPRETED),
    reason="Triton with a GPU is missing, and the variable TRITON_INTERPRET=1, which runs its kernels on the CPU",
)
SHAPES: list[tuple[int, ...]] = [(33_000,), (3, 5), (0,), (), (40, 7)]
DTYPES = ["float16", "bfloat16", "float32"]
LIMITS = [0.0, 1e-30, 100.0, math.inf]


def make_tensors(*dtypes: str, factor: float = 1.0) -> list[Any]:
    """Return tensors of all shapes, whose dtypes take turns."""
    generator = torch.Generator().manual_seed(3)
    tensors = [torch.randn(shape, generator=generator) * factor for shape in SHAPES]
    return [x.to(DEVICE, getattr(torch, dtypes[i % len(dtypes)])) for i, x in enumerate(tensors)]


@pytest.fixture
def choose(monkeypatch: pytest.MonkeyPatch) -> Callable[[bool], None]:
    """Return a function that makes all calls use the fused passes, or the general path."""

    def choose(fused: bool) -> None:
        def make(xp: Any, tensors: Any, device: Any) -> Any:
            from gradclip_spec.backends.torch_fused import FusedTorch

            return (FusedTorch if fused and tensors else Torch)(xp, tensors, device)

        monkeypatch.setattr(backends, "_choose_torch", make)

    return choose


def assert_equal(results: list[Any], expected: list[Any]) -> None:
    """Compare results. Elements of 16 bits may differ by a rounding; others are equal bit for bit."""
    for x, y in zip(results, expected, strict=True):
        assert (x.dtype, x.shape, x.device.type) == (y.dtype, y.shape, y.device.type)
        # The interpreter rounds bfloat16 towards zero. On a GPU, float16 is rounded twice.
        eps = torch.finfo(x.dtype).eps if x.dtype in (torch.float16, torch.bfloat16) else 0.0
        torch.testing.assert_close(x, y, rtol=eps, atol=eps * 2.0**-14 if eps else 0.0, equal_nan=True)
        assert torch.equal(torch.signbit(x) & ~x.isnan(), torch.signbit(y) & ~y.isnan())


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize("limit", LIMITS)
@pytest.mark.parametrize("dtypes", [("float32",), tuple(DTYPES), ("float32", "float64")])
def test_fused_passes_agree_with_the_general_path(choose: Any, dtypes: Any, limit: float, inplace: bool) -> None:
    results = []
    for fused in (True, False):
        choose(fused)
        clipped, norm = clip_by_global_norm(make_tensors(*dtypes), limit, eps=1e-6, inplace=inplace)
        results.append([*clipped, norm, *clip_by_norm(make_tensors(*dtypes), limit, inplace=inplace)])
        results[-1] += clip_by_value(make_tensors(*dtypes), min(limit, 1.5), inplace=inplace)
        results[-1] += clip_by_block_rms(make_tensors(*dtypes), limit, inplace=inplace)
    assert_equal(*results)


@pytest.fixture
def fused(choose: Any) -> None:
    """Make all calls use the fused passes."""
    choose(True)


def make(*values: Any, dtype: str = "float32") -> list[Any]:
    """Return tensors with these values."""
    return [torch.tensor(value, dtype=getattr(torch, dtype), device=DEVICE) for value in values]


@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize(
    ("values", "limit", "eps", "expected", "norm"),
    [
        ([[3.0], [-4.0]], 5.0, 0.0, [[3.0], [-4.0]], 5.0),
        ([[3.0], [-4.0]], 2.5, 0.0, [[1.5], [-2.0]], 5.0),
        ([[3.0], [-4.0]], 2.5, 5.0, [[0.75], [-1.0]], 5.0),
        ([[0.0], [-0.0]], 0.0, 0.0, [[0.0], [-0.0]], 0.0),
        ([[3.0], [-4.0]], 0.0, 0.0, [[0.0], [-0.0]], 5.0),
        ([[math.inf], [-4.0]], 1.0, 0.0, [[math.nan], [-0.0]], math.inf),
        ([[math.inf], [-4.0]], math.inf, 0.0, [[math.inf], [-4.0]], math.inf),
        ([[math.nan], [-4.0]], math.inf, 0.0, [[math.nan], [math.nan]], math.nan),
        ([[3e30], [-4e30]], 2.5e30, 0.0, [[1.5e30], [-2e30]], 5e30),
        ([[3 * 2.0**-149], [-4 * 2.0**-149]], 1.0, 0.0, [[3 * 2.0**-149], [-4 * 2.0**-149]], 5 * 2.0**-149),
        ([[6 * 2.0**-149], [-8 * 2.0**-149]], 5 * 2.0**-149, 0.0, [[3 * 2.0**-149], [-4 * 2.0**-149]], 10 * 2.0**-149),
    ],
)
def test_clip_by_global_norm_of_special_values(
    values: list[Any], limit: float, eps: float, expected: list[Any], norm: float, inplace: bool
) -> None:
    tensors = make(*values)
    clipped, total = clip_by_global_norm(tensors, limit, eps=eps, inplace=inplace)

    assert_equal(clipped, make(*expected))
    assert_equal([total, global_norm(make(*values))], make(norm, norm))
    assert all((x is y) == inplace for x, y in zip(clipped, tensors, strict=True))


@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize("dtype", DTYPES)
def test_clip_by_value_keeps_nan_and_the_sign_of_zero(dtype: str) -> None:
    tensors = make([-0.0, 0.0, math.nan, -3.0, 2.0, math.inf], [-0.0], dtype=dtype)

    assert_equal(clip_by_value(tensors, 1.0, 0.0), make([-0.0, 0.0, math.nan, 0.0, 1.0, 1.0], [-0.0], dtype=dtype))


@pytest.mark.usefixtures("fused")
def test_threshold_is_compared_in_float64() -> None:
    # In float32, these thresholds are 0.1.
    (tensor,) = make([0.1])
    exact = float(tensor[0])

    assert float(clip_by_global_norm(tensor, exact)[0]) == exact
    for limit in (0.1, math.nextafter(exact, 0.0)):
        (product,) = clip_by_global_norm([tensor.to(torch.float32) * 2**20], limit * 2**19)[0]
        assert float(product) == float(torch.tensor(limit * 2**19, dtype=torch.float32))


@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize("clip", [clip_by_norm, lambda x, c, **how: clip_by_global_norm(x, c, **how)[0]])
@pytest.mark.parametrize("step", [1, 2])
def test_tensors_that_share_memory_are_both_scaled(clip: Callable[..., Any], step: int) -> None:
    results = []
    for device in (DEVICE, "cpu"):
        (base,) = (x.to(device) for x in make([3.0, 4.0, 12.0]))
        clip([base[::step], base[1:], torch.ones(2, device=device)], 1.0, inplace=True)
        results.append(base.cpu())

    assert_equal(results[:1], results[1:])


@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize("inplace", [False, True])
def test_tensors_with_gaps_and_in_other_orders(inplace: bool) -> None:
    def make_tensors() -> list[Any]:
        (base,) = make([[3.0, 9.0, 4.0], [0.0, 9.0, 12.0]])
        return [base[:, ::2], base.clone().t()[1]]

    tensors = make_tensors()
    clipped, norm = clip_by_global_norm(tensors, 1.0, inplace=inplace)

    scale = 1.0 / math.sqrt(169.0 + 162.0)
    assert_equal([norm], make(math.sqrt(169.0 + 162.0)))
    for x, y in zip(clipped, make_tensors(), strict=True):
        torch.testing.assert_close(x, y * scale)
    assert all((x is y) == inplace for x, y in zip(clipped, tensors, strict=True))


@pytest.mark.usefixtures("fused")
@pytest.mark.parametrize("inplace", [False, True])
def test_order_of_the_dimensions_does_not_matter(monkeypatch: pytest.MonkeyPatch, inplace: bool) -> None:
    from gradclip_spec.backends.torch_fused import FusedTorch

    def make_tensors() -> list[Any]:
        (base,) = make([[[[3.0, 4.0], [0.0, 12.0]]] * 3])
        return [base.contiguous(memory_format=torch.channels_last), base[0, 0].clone().t(), base[:, :, :1]]

    # Only the last one has gaps.
    copied: list[Any] = []
    copy = FusedTorch.copy_densely
    monkeypatch.setattr(FusedTorch, "copy_densely", lambda backend, x: copied.append(x) or copy(backend, x))
    tensors = make_tensors()
    clipped, norm = clip_by_global_norm(tensors, 1.0, inplace=inplace)

    scale = 1.0 / math.sqrt(169.0 * 4 + 25.0 * 3)
    assert_equal([norm], make(1.0 / scale))
    assert {x.shape for x in copied} == {tensors[2].shape}
    for x, y in zip(clipped, make_tensors(), strict=True):
        torch.testing.assert_close(x, y * scale)
        assert x.stride() == y.stride() or y.shape == tensors[2].shape


@pytest.mark.usefixtures("fused")
def test_writing_is_recorded_for_autograd() -> None:
    tensors = make([3.0], [4.0])
    before = [x._version for x in tensors]
    clip_by_global_norm(tensors, 1.0, inplace=True)

    assert [x._version for x in tensors] == [version + 1 for version in before]


@pytest.mark.parametrize("norm_type", [1, 3, math.inf])
def test_other_norms_and_operations_agree_with_the_general_path(choose: Any, norm_type: float) -> None:
    results = []
    for fused in (True, False):
        choose(fused)
        clipped, norm = clip_by_global_norm(make_tensors(*DTYPES), 1.0, norm_type=norm_type)
        matrices = make([[3.0, 4.0], [0.5, 0.25]], [[6.0, 8.0], [1.0, 0.0]])
        results.append([*clipped, norm, *clip_per_example(matrices, 1.0)])
        results[-1] += clip_unitwise(matrices, [x.flip(0) for x in matrices], 0.5, inplace=True)
    assert_equal(*results)


def test_integers_that_a_graph_sends_stay_where_they_are() -> None:
    from gradclip_spec.kernels.triton_loops import TritonLoops

    loops = TritonLoops()
    assert not loops.can_record(1, 1)
    # Memory that is not pinned stands for memory that is, so that no GPU is needed.
    loops._free = torch.zeros(1 << 12, dtype=torch.uint8)
    assert loops.can_record(10, 1_000_000)
    sent = [loops._reserve(torch.arange(start, start + 5, dtype=torch.int32)) for start in (0, 100)]

    assert [x.tolist() for x in sent] == [list(range(5)), list(range(100, 105))]
    assert not loops.can_record(1_000, 1_000_000)


class FakeTensor:
    """What the choice of a backend looks at in a tensor."""

    is_cuda = True
    device = "cuda:0"
    dtype = torch.float32

    def __init__(self, negative: bool = False, **facts: Any) -> None:
        self._negative = negative
        vars(self).update(facts)

    def is_neg(self) -> bool:
        return self._negative

    def numel(self) -> int:
        return 10


@pytest.mark.parametrize(
    ("facts", "capturing", "expected"),
    [
        ([{}, {}], False, True),
        ([{}, {"dtype": torch.float64}], False, True),
        ([{"dtype": torch.float64}], False, False),
        ([{}, {"device": "cuda:1"}], False, False),
        ([{"is_cuda": False}], False, False),
        ([{"negative": True}], False, False),
        # Nothing has been reserved for a graph before the first call outside of it.
        ([{}], True, False),
    ],
)
def test_kernels_take_narrow_tensors_of_one_gpu(
    monkeypatch: pytest.MonkeyPatch, facts: list[dict[str, Any]], capturing: bool, expected: bool
) -> None:
    from gradclip_spec.backends import torch_fused
    from gradclip_spec.kernels.triton_loops import TritonLoops

    loops = TritonLoops()
    monkeypatch.setattr(torch_fused, "load_loops", lambda: loops)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: capturing)

    assert torch_fused.can_fuse([FakeTensor(**each) for each in facts]) == expected


@pytest.fixture
def on_a_gpu() -> None:
    """Skip a test of what only a GPU can show."""
    if DEVICE != "cuda":
        pytest.skip("a GPU is missing")


@pytest.mark.usefixtures("on_a_gpu")
def test_no_clip_waits_for_the_device() -> None:
    for inplace in (True, False):
        # The first calls compile the kernels.
        for mode in ("default", "error"):
            tensors = make_tensors(*DTYPES)
            torch.cuda.set_sync_debug_mode(mode)
            try:
                clip_by_global_norm(tensors, 1.0, inplace=inplace)
                clip_by_norm(tensors, 1.0, inplace=inplace)
                clip_by_value(tensors, 1.0, inplace=inplace)
            finally:
                torch.cuda.set_sync_debug_mode("default")


@pytest.mark.usefixtures("on_a_gpu")
def test_graph_clips_what_is_in_the_tensors_when_it_runs() -> None:
    tensors = make_tensors(*DTYPES)
    values = [x.clone() for x in tensors]
    clip_by_global_norm(tensors, 1.0, inplace=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        _, norm = clip_by_global_norm(tensors, 1.0, inplace=True)
    # Other calls push the tables out of the cache, and use pinned memory.
    for size in range(1, 50):
        clip_by_global_norm([torch.ones(size, device=DEVICE)] * 2, 1.0)
    for factor in (3.0, 0.5):
        for x, value in zip(tensors, values, strict=True):
            x.copy_(value * factor)
        expected, total = clip_by_global_norm([value * factor for value in values], 1.0)
        graph.replay()
        assert_equal([*tensors, norm], [*expected, total])


@pytest.mark.usefixtures("on_a_gpu")
def test_clip_in_place_takes_little_memory() -> None:
    tensors = [torch.ones(25_000_000, device=DEVICE)] + [torch.ones(100_000, device=DEVICE) for _ in range(10)]
    clip_by_global_norm(tensors, 1.0, inplace=True)
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    clip_by_global_norm(tensors, 0.5, inplace=True)

    assert torch.cuda.max_memory_allocated() - before < 0.01 * 4 * 26_000_000
