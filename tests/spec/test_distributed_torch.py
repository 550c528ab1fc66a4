"""Check DTensors and FSDP2's sharded gradients over gloo. Results equal those of one process. Only scalars are sent.

The processes run this file as a script. A failure in one of them fails the test here.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
import traceback
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from gradclip_spec import (
    clip_by_global_norm,
    clip_by_norm,
    clip_by_value,
    clip_unitwise,
    global_norm,
    norm_contribution,
)

CHECKS: dict[str, Callable[[Any], None]] = {}
#: For each dtype: the bits of the significand, and the error budget of an element.
BUDGETS = {"float16": (11, 1.5), "bfloat16": (8, 1.5), "float32": (24, 1.5), "float64": (53, 3.0)}


def check(function: Callable[[Any], None]) -> Callable[[Any], None]:
    """Register a check that every process runs, on the mesh of all of them."""
    CHECKS[function.__name__] = function
    return function


def make_gradients(dtype: str, seed: int = 0) -> list[Any]:
    """Return whole gradients, equal on all processes. Some cannot be divided evenly among the processes."""
    generator = torch.Generator().manual_seed(seed)
    shapes = [(10, 7), (3, 5), (16,), (1, 4), (2, 3, 9)]
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(getattr(torch, dtype)) for shape in shapes]


def shard_tensor(mesh: Any, whole: Any, *placements: Any) -> Any:
    """Return a DTensor of a whole tensor."""
    from torch.distributed.tensor import distribute_tensor

    return distribute_tensor(whole.clone(), mesh, placements)


def assert_on_budget(whole: list[Any], clipped: list[Any], total: Any, threshold: float, dtype: str) -> None:
    """Assert that a norm and all elements are within their error budgets of the exact results."""
    square = sum(Fraction(number) ** 2 for x in whole for number in x.double().flatten().tolist())
    norm = Fraction(math.isqrt(int(square * 4**200)), 2**200)
    single = np.float64 if dtype == "float64" else np.float32
    assert abs(Fraction(float(total)) - norm) <= Fraction(float(np.spacing(single(float(norm)))))
    precision, budget = BUDGETS[dtype]
    for x, y in zip(whole, clipped, strict=True):
        for before, after in zip(x.double().flatten().tolist(), y.double().flatten().tolist(), strict=True):
            exact = Fraction(before) * Fraction(threshold) / norm
            ulp = Fraction(2) ** (math.frexp(float(exact))[1] - precision)
            assert abs(Fraction(after) - exact) <= Fraction(budget) * ulp


class Traffic:
    """Count collectives, and the elements that the largest of them carries."""

    def __init__(self) -> None:
        from torch.utils._python_dispatch import TorchDispatchMode

        class Mode(TorchDispatchMode):  # type: ignore[misc]
            def __torch_dispatch__(mode, operation: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # noqa: N805
                name = str(operation)
                if "c10d" in name and "wait_tensor" not in name and "wrap_tensor" not in name:
                    self.sizes.append(max(x.numel() for x in args if hasattr(x, "numel")))
                return operation(*args, **(kwargs or {}))

        self.sizes: list[int] = []
        self.mode = Mode()


@check
def same_as_unsharded(mesh: Any) -> None:
    """Check all dtypes with several placements in one call, functional and in place."""
    from torch.distributed.tensor import Replicate, Shard

    for dtype in BUDGETS:
        whole = make_gradients(dtype)
        ways = [Shard(0), Shard(1), Shard(0), Replicate(), Shard(2)]
        shards = [shard_tensor(mesh, x, way) for x, way in zip(whole, ways, strict=True)]
        traffic = Traffic()
        with traffic.mode:
            clipped, total = clip_by_global_norm([*shards, None], 1.25)

        assert type(total) is torch.Tensor
        assert total.shape == ()
        # All sharded tensors share one collective of four numbers. Replicated tensors need none.
        assert traffic.sizes == [4], traffic.sizes
        assert clipped.pop() is None
        assert [x.placements for x in clipped] == [x.placements for x in shards]
        assert_on_budget(whole, [x.full_tensor() for x in clipped], total, 1.25, dtype)
        totals: list[Any] = [None] * mesh.size()
        torch.distributed.all_gather_object(totals, float(total))
        assert set(totals) == {float(total)}

        memory = [x.to_local().data_ptr() for x in shards]
        written, _ = clip_by_global_norm(shards, 1.25, inplace=True)
        assert all(new is old for new, old in zip(written, shards, strict=True))
        assert memory == [x.to_local().data_ptr() for x in shards]
        assert_on_budget(whole, [x.full_tensor() for x in shards], total, 1.25, dtype)


@check
def each_shard_is_read_once(mesh: Any) -> None:
    """Check that a norm reads each shard once, in the process that has it."""
    from torch.distributed.tensor import Shard

    shards = [shard_tensor(mesh, x, Shard(0)) for x in make_gradients("float32")]
    taken: list[int] = []
    from gradclip_spec.backends.torch import InMemoryTorch

    original = InMemoryTorch.summarize

    def summarize(backend: Any, blocks: Any, norm_type: float) -> Any:
        taken.extend(x.data_ptr() for x in blocks)
        return original(backend, blocks, norm_type)

    InMemoryTorch.summarize = summarize  # type: ignore[method-assign]
    try:
        global_norm(shards)
    finally:
        InMemoryTorch.summarize = original  # type: ignore[method-assign]

    assert taken == [x.to_local().data_ptr() for x in shards]


@check
def within_the_threshold_bit_for_bit(mesh: Any) -> None:
    """Check calls with nothing to clip, and excluded gradients."""
    from torch.distributed.tensor import Shard

    for dtype in BUDGETS:
        whole = make_gradients(dtype)
        shards = [shard_tensor(mesh, x, Shard(0)) for x in whole]
        clipped, total = clip_by_global_norm(shards, 1e4)
        assert all(x is y for x, y in zip(clipped, shards, strict=True))
        assert all(x.full_tensor().equal(y) for x, y in zip(shards, whole, strict=True))
        flags = [True, False, True, False, True]
        clipped, counted = clip_by_global_norm(shards, 0.5, need_clip=flags)
        alone = clip_by_global_norm(whole, 0.5, need_clip=flags)[1]
        assert abs(float(counted) - float(alone)) <= float(np.spacing(np.float32(alone)))
        assert float(counted) < float(total)
        assert clipped[1] is shards[1]
        assert clipped[3] is shards[3]


@check
def other_operations(mesh: Any) -> None:
    """Check clips of each tensor by its own norm, other norms, and clips by value."""
    from torch.distributed.tensor import Shard

    whole = make_gradients("float32")
    shards = [shard_tensor(mesh, x, Shard(0)) for x in whole]
    for norm_type in (0.5, 1, 2, 3, math.inf):
        expected = clip_by_norm(whole, 0.75, norm_type=norm_type)
        for inplace in (False, True):
            copies = [shard_tensor(mesh, x, Shard(0)) for x in whole]
            for x, y in zip(clip_by_norm(copies, 0.75, norm_type=norm_type, inplace=inplace), expected, strict=True):
                np.testing.assert_array_max_ulp(x.full_tensor().numpy(), y.numpy(), 2)
        total, alone = global_norm(shards, norm_type=norm_type), global_norm(whole, norm_type=norm_type)
        np.testing.assert_array_max_ulp(total.numpy(), alone.numpy(), 1)
    for inplace in (False, True):
        for x, y in zip(clip_by_value(shards, 0.5, -0.25, inplace=inplace), whole, strict=True):
            assert x.full_tensor().equal(y.clamp(-0.25, 0.5))


@check
def units_along_and_across_the_shards(mesh: Any) -> None:
    """Check that units are clipped in place and out of place, also if the processes hold different units."""
    from torch.distributed.tensor import Replicate, Shard

    whole = make_gradients("float32")
    weights = make_gradients("float32", seed=1)
    for placement in (Shard(0), Shard(1), Replicate()):
        chosen = [index for index, x in enumerate(whole) if placement != Shard(1) or x.ndim > 1]
        gradients, parameters = ([several[index] for index in chosen] for several in (whole, weights))
        parameter_shards = [shard_tensor(mesh, x, placement) for x in parameters]
        for axis in (0, -1):
            expected = clip_unitwise(gradients, parameters, 0.5, axis=axis)
            for inplace in (False, True):
                shards = [shard_tensor(mesh, x, placement) for x in gradients]
                clipped = clip_unitwise(shards, parameter_shards, 0.5, axis=axis, inplace=inplace)
                for shard, x, y in zip(shards, clipped, expected, strict=True):
                    assert x.placements == (placement,)
                    assert not inplace or x is shard
                    np.testing.assert_array_max_ulp(x.full_tensor().numpy(), y.numpy(), 2)


@check
def coefficient_is_not_rounded_to_float32(mesh: Any) -> None:
    """Check that a coefficient is not rounded to float32, which would give elements an error of 1.2 ulp."""
    from torch.distributed.tensor import Shard

    values = np.random.default_rng(5).standard_normal(1 << 19).astype(np.float32)
    norm = float(np.sqrt(np.sum(np.square(values, dtype=np.float64))))
    threshold = norm * (float(np.float32(0.13)) + 0.8 * 2.0**-27)
    clipped = (
        clip_by_global_norm(shard_tensor(mesh, torch.from_numpy(values), Shard(0)), threshold)[0].full_tensor().numpy()
    )
    exact = values.astype(np.float64) * (threshold / norm)
    assert np.max(np.abs(clipped - exact) / np.spacing(np.abs(clipped))) <= 0.75


@check
def shards_of_extreme_scales(mesh: Any) -> None:
    """Check processes whose shards differ in scale, are zero, or are not finite."""
    from torch.distributed.tensor import Shard

    rows = {
        "scales": [1e200, 1e-200, 3e-310, 1.0],
        "overflow": [1e200, 1e200, 1e200, 1e200],
        "underflow": [3e-200, 0.0, 4e-200, 0.0],
        "far above": [1e307, 0.0, 1e-307, 1e307],
        "zero": [0.0, 0.0, 0.0, 0.0],
        "one zero": [0.0, 3e-320, 0.0, 0.0],
        "infinite": [1e200, math.inf, 1e-200, 0.0],
        "nan": [1e200, math.inf, math.nan, 0.0],
    }
    for name, values in rows.items():
        whole = torch.tensor(values, dtype=torch.float64).repeat_interleave(3)
        for norm_type in (1, 2, 3, math.inf):
            shards = shard_tensor(mesh, whole, Shard(0))
            expected, alone = clip_by_global_norm(whole, 2.0, norm_type=norm_type)
            clipped, total = clip_by_global_norm(shards, 2.0, norm_type=norm_type)
            message = f"{name}, norm type {norm_type}: {total} is not {alone}"
            close = abs(float(total) - float(alone)) <= 4 * np.spacing(float(alone))
            assert close or total.equal(alone) or (total.isnan() and alone.isnan()), message
            np.testing.assert_allclose(clipped.full_tensor(), expected, rtol=1e-15, atol=0, err_msg=message)


@check
def refusals(mesh: Any) -> None:
    """Check refusals: a clip of partial sums by value, and elements that share memory."""
    from torch.distributed.tensor import DTensor, Partial, Shard

    plain = torch.ones(4)
    shards = shard_tensor(mesh, plain, Shard(0))
    partial = DTensor.from_local(plain, mesh, [Partial()])
    with pytest.raises(TypeError, match="redistribute"):
        clip_by_value([partial], 1.0, inplace=True)
    assert partial.to_local().equal(torch.ones(4))
    # The derivative of a sum is an expanded tensor: one element in memory for all positions. The strides of its DTensor
    # do not show that, because a DTensor reports the strides that it was given.
    size = torch.Size((4 * mesh.size(),))
    expanded = DTensor.from_local(torch.ones(1).expand(4), mesh, [Shard(0)], run_check=False, shape=size, stride=(1,))
    for clip in (clip_by_global_norm, clip_by_norm, clip_by_value):
        for grads in ([shards, expanded], [expanded, shards]):
            with pytest.raises(TypeError, match="share memory"):
                clip(grads, 0.5, inplace=True)
            assert shards.to_local().equal(torch.ones(4 // mesh.size()))


@check
def derivatives_of_clips(mesh: Any) -> None:
    """Check that a coefficient scales every element of every shard, with empty shards and replicated tensors."""
    from torch.distributed.tensor import Replicate, Shard

    for dtype in ("float32", "float64"):
        whole = [x.requires_grad_() for x in make_gradients(dtype)]
        weights = make_gradients(dtype, seed=1)
        # The fourth tensor has too few rows for all processes.
        ways = [Shard(0), Replicate(), Shard(0), Shard(0), Shard(2)]
        for norm_type in (1, 2, 3):
            calls = [
                lambda grads, p=norm_type: clip_by_global_norm(grads, 1.25, norm_type=p)[0],
                lambda grads, p=norm_type: clip_by_norm(grads, 0.75, norm_type=p),
            ]
            for call in calls:
                shards = [
                    shard_tensor(mesh, x.detach(), way).requires_grad_() for x, way in zip(whole, ways, strict=True)
                ]
                for x in whole:
                    x.grad = None
                sum((x * weight).sum() for x, weight in zip(call(whole), weights, strict=True)).backward()
                ours = [shard_tensor(mesh, weight, way) for weight, way in zip(weights, ways, strict=True)]
                total = sum((x * weight).sum().full_tensor() for x, weight in zip(call(shards), ours, strict=True))
                total.backward()
                rtol = 1e-12 if dtype == "float64" else 1e-5
                for x, shard in zip(whole, shards, strict=True):
                    np.testing.assert_allclose(shard.grad.full_tensor(), x.grad, rtol=rtol, atol=rtol)


@check
def second_derivatives(mesh: Any) -> None:
    """Check that the derivative of a clip uses sums over all processes, as the clip does."""
    from torch.distributed.tensor import Replicate, Shard

    whole, weights = make_gradients("float64"), make_gradients("float64", seed=1)
    ways = [Shard(0), Replicate(), Shard(0), Shard(0), Shard(2)]

    def take_second(call: Any, xs: list[Any], ws: list[Any], number: Any) -> list[Any]:
        xs = [x.detach().requires_grad_() for x in xs]
        # The derivative of this number by an element depends on the element, and on a sum over all processes.
        values = [(y**2 * w).sum() + y.sum() ** 2 for y, w in zip(call(xs), ws, strict=True)]
        firsts = torch.autograd.grad(sum(map(number, values)), xs, create_graph=True)
        return list(torch.autograd.grad(sum(number((x * w).sum()) for x, w in zip(firsts, ws, strict=True)), xs))

    for norm_type in (1, 2, 3, math.inf):
        for call in (
            lambda grads, p=norm_type: clip_by_global_norm(grads, 1.25, norm_type=p)[0],
            lambda grads, p=norm_type: clip_by_norm(grads, 0.75, norm_type=p),
        ):
            shards, ours = (
                [shard_tensor(mesh, x, w) for x, w in zip(xs, ways, strict=True)] for xs in (whole, weights)
            )
            expected = take_second(call, whole, weights, lambda x: x)
            found = take_second(call, shards, ours, lambda x: x.full_tensor())
            for x, shard in zip(expected, found, strict=True):
                np.testing.assert_allclose(shard.full_tensor(), x, rtol=1e-11, atol=1e-11)


@check
def meshes_of_other_processes(mesh: Any) -> None:
    """Check that a process outside the mesh gets an error at once, and does not wait."""
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import DTensor, Shard

    first = DeviceMesh("cpu", [0])
    grads = [DTensor.from_local(torch.tensor([3.0, 4.0]), first, [Shard(0)], run_check=False)]
    if torch.distributed.get_rank() == 0:
        assert float(clip_by_global_norm(grads, 1.0)[1]) == 5.0
    else:
        with pytest.raises(TypeError, match="part of"):
            clip_by_global_norm(grads, 1.0)


@check
def compiled(mesh: Any) -> None:
    """Check that the compiler makes one graph without a break, collectives included."""
    from torch.distributed.tensor import Shard

    whole = make_gradients("float32")[:2]
    shards = [shard_tensor(mesh, x, Shard(0)) for x in whole]
    function = torch.compile(lambda *grads: clip_by_global_norm(grads, 1.25), backend="aot_eager", fullgraph=True)
    with warnings.catch_warnings():
        # Dynamo traces through the caches of array-api-compat and says so.
        warnings.simplefilter("ignore")
        clipped, total = function(*shards)

    assert_on_budget(whole, [x.full_tensor() for x in clipped], total, 1.25, "float32")


@check
def plain_tensors_and_partial_sums(mesh: Any) -> None:
    """Check plain tensors beside shards, which are the same on all processes, and sums that are spread over them."""
    from torch.distributed.tensor import DTensor, Partial, Shard

    for dtype in BUDGETS:
        first, second, third, *_ = make_gradients(dtype)
        # Only one process has an addend that is not zero, so the sum is exact.
        addend = third if mesh.get_rank() == mesh.size() - 1 else torch.zeros_like(third)
        whole = [first, second, third]
        for inplace in (False, True):
            partial = DTensor.from_local(addend.clone(), mesh, [Partial()], run_check=False)
            given = [shard_tensor(mesh, first.clone(), Shard(0)), second.clone(), partial]
            clipped, total = clip_by_global_norm(given, 1.25, inplace=inplace)

            assert type(clipped[1]) is torch.Tensor
            assert clipped[2].placements == (Partial(),)
            assert all((new is old) == inplace for new, old in zip(clipped, given, strict=True))
            assert_on_budget(
                whole, [clipped[0].full_tensor(), clipped[1], clipped[2].full_tensor()], total, 1.25, dtype
            )


@check
def two_dimensional_meshes(mesh: Any) -> None:
    """Check hybrid sharding and tensors sharded along both dimensions, in one call with a flat mesh."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard

    grid = init_device_mesh("cpu", (2, mesh.size() // 2))
    for dtype in BUDGETS:
        whole = make_gradients(dtype)
        ways = [(Replicate(), Shard(0)), (Shard(0), Shard(1)), (Shard(0), Replicate()), (Shard(0), Shard(0))]
        shards = [shard_tensor(grid, x, *way) for x, way in zip(whole, ways, strict=False)]
        shards.append(shard_tensor(mesh, whole[-1], Shard(1)))
        clipped, total = clip_by_global_norm(shards, 1.25)

        assert_on_budget(whole, [x.full_tensor() for x in clipped], total, 1.25, dtype)


@check
def partial_sums_on_two_dimensional_meshes(mesh: Any) -> None:
    """Check sums that are spread over one dimension of a mesh, with a flat mesh and a plain tensor in the same list."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

    grid = init_device_mesh("cpu", (2, mesh.size() // 2))
    ways = [(Partial(), Shard(0)), (Replicate(), Partial()), (Partial(), Replicate()), (Partial(), Partial())]
    for norm_type in (1, 2, 3, math.inf):
        whole = make_gradients("float64")
        shards = []
        for x, way in zip(whole, ways, strict=False):
            held = shard_tensor(grid, x, *(Replicate() if part == Partial() else part for part in way)).to_local()
            # Along a dimension with sums, only the first process has an addend that is not zero. So the sum is exact.
            first = all(not at or part != Partial() for at, part in zip(grid.get_coordinate(), way, strict=True))
            addend = held if first else torch.zeros_like(held)
            shape = {"shape": x.shape, "stride": x.stride()}
            shards.append(DTensor.from_local(addend, grid, way, run_check=False, **shape))
        given = [*shards, shard_tensor(mesh, whole[-1], Shard(1)), whole[0]]
        expected, alone = clip_by_global_norm([*whole, whole[0]], 1.25, norm_type=norm_type)
        clipped, total = clip_by_global_norm(given, 1.25, norm_type=norm_type)

        assert abs(float(total) - float(alone)) <= 2 * np.spacing(float(alone))
        assert [x.placements for x in clipped[:4]] == ways
        for x, y in zip(clipped, expected, strict=True):
            found = x.full_tensor() if isinstance(x, DTensor) else x
            np.testing.assert_array_max_ulp(found.numpy(), y.numpy(), 4)


@check
def plain_tensors_with_own_collectives(mesh: Any) -> None:
    """Clip plain tensors in a few lines: a copy on each rank, a part on each, and a rank without any gradient."""
    rank, size = mesh.get_rank(), mesh.size()
    parts = [torch.tensor([1e30 * number]) for number in (4, 12, 84, 0)[: size - 1]]
    copy = torch.tensor([3e30])
    last = rank == size - 1
    grads, counts_here = [None, None] if last else [copy.clone(), parts[rank].clone()], [rank == 0, True]
    # docs/how-to/own-collectives.md: begin
    row = torch.as_tensor(norm_contribution(grads, need_clip=counts_here))  # with `device=` on a GPU
    rows = row.new_empty(4 * torch.distributed.get_world_size())
    torch.distributed.all_gather_into_tensor(rows, row)
    _, total_norm = clip_by_global_norm(grads, 1.0, contributions=rows.reshape(-1, 4), inplace=True)
    # docs/how-to/own-collectives.md: end
    whole = [copy, *parts]
    expected, alone = clip_by_global_norm(whole, 1.0)
    assert float(total_norm) == float(alone)
    if last:
        assert grads == [None, None]
    else:
        assert grads[0].equal(expected[0])
        assert grads[1].equal(expected[1 + rank])


@check
def fully_sharded_model(mesh: Any) -> None:
    """Run a training loop with FSDP2."""
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(9, 31), torch.nn.Tanh(), torch.nn.Linear(31, 5))
    fully_shard(model[0], mesh=mesh)
    fully_shard(model, mesh=mesh)
    torch.manual_seed(torch.distributed.get_rank())
    (model(torch.randn(20, 9)) ** 2).sum().backward()
    whole = [parameter.grad.full_tensor().clone() for parameter in model.parameters()]
    traffic = Traffic()
    with traffic.mode:
        # docs/how-to/use-the-reference.md: begin
        grads = [parameter.grad for parameter in model.parameters()]
        _, total_norm = clip_by_global_norm(grads, 1.0, inplace=True)
        # docs/how-to/use-the-reference.md: end

    assert traffic.sizes == [4], traffic.sizes
    clipped = [parameter.grad.full_tensor() for parameter in model.parameters()]
    assert float(total_norm) > 1.0
    assert_on_budget(whole, clipped, total_norm, 1.0, "float32")


def main(folder: str, rank: int, size: int) -> None:
    """Run every check in this process and record its outcome."""
    from torch.distributed.device_mesh import init_device_mesh

    torch.set_num_threads(1)
    rendezvous = Path(folder, "rendezvous").as_uri()
    torch.distributed.init_process_group("gloo", init_method=rendezvous, rank=rank, world_size=size)
    mesh = init_device_mesh("cpu", (size,))
    outcomes = {}
    for name, function in CHECKS.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                # DTensor and FSDP2 use functions that torch itself has deprecated.
                warnings.filterwarnings("ignore", module=r"torch\.")
                function(mesh)
            outcomes[name] = ""
        except BaseException:
            outcomes[name] = traceback.format_exc()
        # Write after each check, because a later check may wait for a process that has failed.
        Path(folder, f"{rank}.json").write_text(json.dumps(outcomes))
    torch.distributed.destroy_process_group()


@pytest.fixture(scope="module", params=[2, 4], ids=["two processes", "four processes"])
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Return, for each of several processes, the outcomes of its checks, which it wrote to a file."""
    folder = tmp_path_factory.mktemp("processes")
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    if sys.platform == "linux":
        environment["GLOO_SOCKET_IFNAME"] = "lo"
    commands = [[sys.executable, __file__, str(folder), str(rank), str(request.param)] for rank in range(request.param)]
    processes = [subprocess.Popen(command, env=environment, stderr=subprocess.PIPE) for command in commands]
    deadline = time.monotonic() + 120
    try:
        errors = [process.communicate(timeout=deadline - time.monotonic())[1].decode() for process in processes]
    except subprocess.TimeoutExpired:
        errors = ["a process waits for one that has failed"]
    finally:
        for process in processes:
            process.kill()
            process.communicate()
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]
    assert len(found) == len(processes), "\n".join(errors)
    return found


@pytest.mark.parametrize("name", list(CHECKS))
def test_on_several_processes(outcomes: list[dict[str, str]], name: str) -> None:
    failures = [found.get(name, "did not run") for found in outcomes]

    assert not any(failures), "\n".join(failures)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
