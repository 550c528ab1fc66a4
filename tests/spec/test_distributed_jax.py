"""Check JAX arrays that are sharded over several devices. The shards stay in place, and only sums are sent.

JAX reads the number of devices when it starts. So this file runs itself as a script in a process with eight devices.
"""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
import traceback
import warnings
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest

from gradclip_spec import clip_by_global_norm, clip_by_norm, clip_by_value, global_norm, norm_contribution

CHECKS: dict[str, Callable[[], None]] = {}
#: Ways to shard an array over a grid of 2 x 2 devices: by rows over one axis of the grid; by columns over the other; by
#: both; by rows over the whole grid; not at all, so that each device has a copy.
WAYS = [("rows",), (None, "columns"), ("rows", "columns"), (("rows", "columns"),), (None,)]


def check(function: Callable[[], None]) -> Callable[[], None]:
    """Register a check that runs in the process with eight devices."""
    CHECKS[function.__name__] = function
    return function


def shard_array(values: Any, way: Any, axis_type: str = "Auto") -> Any:
    """Return a JAX array that lies on four of the devices."""
    mesh = jax.make_mesh((2, 2), ("rows", "columns"), axis_types=(jax.sharding.AxisType[axis_type],) * 2)
    return jax.device_put(values, jax.NamedSharding(mesh, jax.P(*way)))


def make_gradients(dtype: str) -> list[Any]:
    """Return large and small gradients, with equal and with different shapes."""
    random = np.random.default_rng(0)
    shapes = [(8, 16), (8, 16), (64, 1000), (4, 4), (12, 2, 5)]
    return [np.asarray(jax.numpy.asarray(random.standard_normal(shape), dtype)) for shape in shapes]


def assert_agrees(result: Any, expected: Any, grads: Any = None) -> None:
    """Assert that a norm is within 1 ulp of the expected one, and that elements are within 2, sharded as `grads`.

    Each of two elements is within 1.5 ulp of the exact one. So they differ by less than 3 ulp, and by a whole number.
    """
    (clipped, total), (wanted, alone) = result, expected
    np.testing.assert_array_max_ulp(np.asarray(total), alone, 1)
    for x, y, z in zip(clipped, wanted, grads or clipped, strict=True):
        assert x.dtype == z.dtype
        assert x.sharding.is_equivalent_to(z.sharding, x.ndim)
        gap = np.abs(np.asarray(x, np.float64) - np.asarray(y, np.float64))
        assert np.all(gap <= 2 * np.spacing(np.abs(np.asarray(y, x.dtype))).astype(np.float64))


def clip_to_norm(grads: Any) -> Any:
    """Clip with the operation under test."""
    return clip_by_global_norm(grads, 1.25)


def measure_transfers(function: Callable[..., Any], *arguments: Any) -> dict[str, int]:
    """Return, for each kind of collective in the compiled code, the size of its largest array."""
    found: dict[str, int] = {}
    pattern = r"= (.*?) (all-gather|all-to-all|all-reduce|reduce-scatter|collective-\w+)(?:-start)?\("
    for line in jax.jit(function).lower(*arguments).compile().as_text().splitlines():
        for shapes, kind in re.findall(pattern, line):
            sizes = [math.prod(map(int, filter(None, size.split(",")))) for size in re.findall(r"\[([\d,]*)\]", shapes)]
            found[kind] = max([*sizes, found.get(kind, 0)])
    return found


@check
def same_as_unsharded() -> None:
    """Check all dtypes and ways of sharding, eagerly and under `jit`."""
    for dtype in ("float16", "bfloat16", "float32"):
        values = make_gradients(dtype)
        expected = clip_by_global_norm(values, 1.25)
        for shift in (0, 3):
            arrays = [shard_array(x, WAYS[(index + shift) % len(WAYS)]) for index, x in enumerate(values)]
            for clip in (jax.jit(clip_to_norm), clip_to_norm)[: 2 if shift else 1]:
                clipped, total = clip(arrays)

                assert_agrees((clipped, total), expected, arrays)
                assert total.sharding.is_fully_replicated


@check
def only_sums_travel() -> None:
    """Check that no array is gathered, sent or resharded. Each device sends only its sum of squares."""
    for dtype, way in zip(("float16", "bfloat16", "float32", "float32"), WAYS, strict=False):
        arrays = [shard_array(x, way) for x in make_gradients(dtype)]
        assert measure_transfers(clip_to_norm, arrays) == {"all-reduce": 1}
        assert measure_transfers(lambda grads: clip_by_norm(grads, 1.25), arrays) == {"all-reduce": 1}
        assert measure_transfers(lambda grads: clip_by_value(grads, 0.5), arrays) == {}
    mixed = [shard_array(x, way) for x, way in zip(make_gradients("float32")[1:], WAYS, strict=False)]
    assert measure_transfers(clip_to_norm, mixed) == {"all-reduce": 1}


@check
def each_shard_is_read_once() -> None:
    """Check that the compiled norm reads the large array once and makes no copy of it."""
    array = shard_array(np.ones((64, 65536), np.float32), ("rows", "columns"))
    compiled = jax.jit(global_norm).lower(array).compile()

    assert compiled.memory_analysis().temp_size_in_bytes < array.nbytes / 4 / 8
    assert compiled.cost_analysis()["bytes accessed"] < 1.5 * array.nbytes / 4


@check
def other_norms() -> None:
    """Check that elements stay in place for other values of `norm_type`."""
    values = make_gradients("float32")
    compiled = jax.jit(global_norm, static_argnames="norm_type")
    for norm_type, way in zip((0.5, 1, 3, math.inf), WAYS, strict=False):
        alone = global_norm(values, norm_type=norm_type)
        arrays = [shard_array(x, way) for x in values]
        np.testing.assert_array_max_ulp(np.asarray(compiled(arrays, norm_type=norm_type)), alone, 1)
        assert measure_transfers(lambda x: clip_by_norm(x, 1.0, norm_type=norm_type), arrays) == {"all-reduce": 1}  # noqa: B023


@check
def float64_elements_stay_in_place() -> None:
    """Check that float64 elements stay in place, too."""
    with jax.enable_x64(True):
        for scale, way in zip((1.0, 1e200, 1e-200), WAYS, strict=False):
            values = [x * scale for x in make_gradients("float64")]
            arrays = [shard_array(x, way) for x in values]
            np.testing.assert_array_max_ulp(np.asarray(global_norm(arrays)), global_norm(values), 2)
        assert measure_transfers(clip_to_norm, arrays) == {"all-reduce": 1}


@check
def explicit_shardings() -> None:
    """Check explicit shardings, where small arrays of one shape may be sharded differently."""
    values = [make_gradients("float32")[0]] * 4
    arrays = [shard_array(x, way, "Explicit") for x, way in zip(values, WAYS, strict=False)]
    for function in (
        clip_to_norm,
        lambda grads: (clip_by_norm(grads, 1.25, norm_type=3), global_norm(grads, norm_type=1)),
        lambda grads: (clip_by_value(grads, 0.5), global_norm(grads, norm_type=math.inf)),
    ):
        assert_agrees(jax.jit(function)(arrays), function(values), arrays)
    assert float(clip_to_norm(arrays)[1]) == float(clip_to_norm(values)[1])


@check
def shard_map_keeps_replicated_arrays_replicated() -> None:
    """Check `shard_map`. An array that is replicated stays replicated when another one is sharded."""

    def clip(weight: Any, bias: Any) -> Any:
        clipped = clip_by_norm([weight, bias], 1.0), clip_by_norm([weight, bias], 1.0, norm_type=3)
        return [(by_norm, clip_by_value(bias, 0.5)) for by_norm in clipped]

    mesh = jax.make_mesh((4,), ("devices",), axis_types=(jax.sharding.AxisType.Auto,))
    way = jax.P("devices")
    weight, bias = jax.numpy.arange(8.0), jax.numpy.full(3, 2.0)
    outs = [([way, jax.P()], jax.P())] * 2
    results = jax.jit(jax.shard_map(clip, mesh=mesh, in_specs=(way, jax.P()), out_specs=outs))(weight, bias)

    for norm_type, (clipped, bounded) in zip((2, 3), results, strict=True):
        pairs = [clip_by_norm(pair, 1.0, norm_type=norm_type) for pair in np.asarray(weight).reshape(4, 2)]
        np.testing.assert_allclose(np.asarray(clipped[0]), np.concatenate(pairs), rtol=2.0**-22)
        np.testing.assert_allclose(
            np.asarray(clipped[1]), clip_by_norm(np.asarray(bias), 1.0, norm_type=norm_type), rtol=2.0**-22
        )
        assert np.asarray(bounded).tolist() == [0.5] * 3


@check
def several_meshes_in_one_list() -> None:
    """Check arrays on meshes of other shapes over the same devices, and beside arrays that lie on no mesh.

    This is compiled: on one CPU, several computations with collectives that JAX starts at once can block each other.
    """
    values = make_gradients("float32")[1:]
    kind = jax.sharding.AxisType.Auto
    line = jax.make_mesh((4,), ("ranks",), axis_types=(kind,))
    other = jax.make_mesh((4, 1), ("replica", "shard"), axis_types=(kind, kind))
    grads = [
        shard_array(values[0], ("rows", "columns")),
        jax.device_put(values[1], jax.NamedSharding(line, jax.P("ranks"))),
        jax.device_put(values[2], jax.NamedSharding(other, jax.P("shard"))),
        jax.numpy.asarray(values[3]),
    ]
    for norm_type in (1, 2, 3, math.inf):
        clip = jax.jit(clip_by_global_norm, static_argnums=1, static_argnames="norm_type")
        expected = clip_by_global_norm(values, 1.25, norm_type=norm_type)
        assert_agrees(clip(grads, 1.25, norm_type=norm_type), expected)


@check
def meshes_of_three_axes() -> None:
    """Check a mesh with copies, parts and tensor parallelism over eight devices, eagerly and under `jit`."""
    mesh = jax.make_mesh((2, 2, 2), ("replica", "shard", "tensor"), axis_types=(jax.sharding.AxisType.Auto,) * 3)
    ways = [(("shard", "tensor"),), ("shard", "tensor"), (None, "tensor"), (("replica", "shard"),)]
    for dtype in ("bfloat16", "float32"):
        values = make_gradients(dtype)[1:]
        arrays = [jax.device_put(x, jax.NamedSharding(mesh, jax.P(*way))) for x, way in zip(values, ways, strict=True)]
        # Each element counts once, although up to eight devices have it.
        assert measure_transfers(clip_to_norm, arrays) == {"all-reduce": 1}
        grads = [*arrays, jax.numpy.asarray(values[0])]
        expected = clip_by_global_norm([*values, values[0]], 1.25)
        for clip in (clip_to_norm, jax.jit(clip_to_norm)):
            clipped, total = clip(grads)
            # The last array lies on no mesh.
            assert_agrees((clipped, total), expected, [*arrays, clipped[-1]])


@check
def uneven_shards() -> None:
    """Check arrays whose rows JAX cannot divide evenly. It pads them, and what it adds must not count."""
    mesh = jax.make_mesh((2, 4), ("replica", "shard"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    sharding = jax.NamedSharding(mesh, jax.P("shard"))
    values = [np.full((3, 5), 2.0, np.float32), np.arange(1.0, 8.0, dtype=np.float32)]
    for norm_type in (1, 2, 3, math.inf):

        def clip(grads: list[Any], norm_type: float = norm_type) -> Any:
            shards = [jax.lax.with_sharding_constraint(x, sharding) for x in grads]
            return clip_by_global_norm(shards, 1.25, norm_type=norm_type)

        assert_agrees(jax.jit(clip)(values), clip_by_global_norm(values, 1.25, norm_type=norm_type))


@check
def contributions_inside_shard_map() -> None:
    """Check ranks that own their collectives: what is sharded, replicated or owned counts once."""
    mesh = jax.make_mesh((2, 2), ("replica", "shard"), axis_types=(jax.sharding.AxisType.Auto,) * 2)
    every = ("replica", "shard")

    def clip(weight: Any, bias: Any, expert: Any) -> Any:
        first_replica, first = jax.lax.axis_index("replica") == 0, jax.lax.axis_index(every) == 0
        # A copy that does not count is a zero: inside `shard_map`, all ranks run the same program.
        counted = [jax.numpy.where(first_replica, weight, 0), jax.numpy.where(first, bias, 0), expert]
        rows = jax.lax.all_gather(norm_contribution(counted), every)
        return clip_by_global_norm([weight, bias, expert], 1.0, contributions=rows)

    weight, bias = np.array([3e30, 4e30], np.float32), np.array([12e30], np.float32)
    expert = np.array([2.0, 84e30, 1.0, 0.0], np.float32)
    ways = (jax.P("shard"), jax.P(), jax.P(every))
    run = jax.shard_map(clip, mesh=mesh, in_specs=ways, out_specs=([*ways], jax.P()), check_vma=False)
    # The norm is 1e30 times the root of 3**2 + 4**2 + 12**2 + 84**2, which is 85.
    expected = [x / np.float64(85e30) for x in (weight, bias, expert)], np.float32(85e30)
    for function in (run, jax.jit(run)):
        assert_agrees(function(weight, bias, expert), expected)


@check
def example_of_the_manual() -> None:
    """Clip in a few lines, as a user would write them."""
    # docs/how-to/use-the-reference.md: begin
    import jax

    mesh = jax.make_mesh((4,), ("devices",))
    sharding = jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec("devices"))
    grads = {"weight": jax.device_put(jax.numpy.full((8, 2), 0.75), sharding), "bias": jax.numpy.zeros(2)}

    clipped, total_norm = jax.jit(clip_by_global_norm, static_argnums=1)(grads, 1.0)
    # docs/how-to/use-the-reference.md: end
    assert float(total_norm) == 3.0
    assert np.asarray(clipped["weight"]).tolist() == [[0.25, 0.25]] * 8
    assert clipped["weight"].sharding.is_equivalent_to(sharding, 2)


@check
def example_of_own_collectives() -> None:
    """Clip in a few lines inside `shard_map`, as a user would write them."""

    def clip(weight: Any, bias: Any) -> Any:
        # docs/how-to/own-collectives.md: begin
        counted = jax.numpy.where(jax.lax.axis_index("shard") == 0, bias, 0)
        rows = jax.lax.all_gather(norm_contribution([weight, counted]), "shard", to="invarying")
        clipped, total_norm = clip_by_global_norm([weight, bias], 1.0, contributions=rows)
        # docs/how-to/own-collectives.md: end
        return clipped, total_norm

    mesh = jax.make_mesh((4,), ("shard",), axis_types=(jax.sharding.AxisType.Auto,))
    sharded, copied = jax.P("shard"), jax.P()
    run = jax.shard_map(clip, mesh=mesh, in_specs=(sharded, copied), out_specs=([sharded, copied], copied))
    values = np.array([4.0, 12.0, 84.0, 0.0], np.float32) * np.float32(1e30), np.array([3e30], np.float32)
    assert_agrees(jax.jit(run)(*values), ([x / np.float64(85e30) for x in values], np.float32(85e30)))


@check
def arrays_without_a_device_beside_sharded_ones() -> None:
    """Check arrays without a device together with sharded and with empty arrays, in any order."""
    spread = shard_array(np.full((8, 2), 0.75, np.float32), ("rows",))
    there = jax.device_put(np.ones(3, np.float32), jax.devices()[1])
    loose, empty = jax.numpy.ones(2), jax.numpy.zeros(0)
    for norm_type in (1, 2, 3, math.inf):
        for placed in (spread, there):
            for grads in ([loose, placed], [empty, placed], [placed, empty, loose]):
                expected = float(global_norm([np.asarray(x) for x in grads], norm_type=norm_type))
                clipped, total = clip_by_global_norm(grads, 0.5, norm_type=norm_type)
                assert abs(float(total) - expected) <= 1e-6 * expected
                clipped += clip_by_norm(grads, 0.5, norm_type=norm_type)
                for x, y in zip(clipped, grads * 2, strict=True):
                    assert x.sharding.is_equivalent_to(y.sharding, y.ndim) or y is not placed
        for clip in (clip_by_norm, clip_to_norm):
            alone: Any = (
                clip([loose, empty], 1.0, norm_type=norm_type) if clip is clip_by_norm else clip([loose, empty])
            )
            alone = alone[0] if isinstance(alone, tuple) else alone
            assert not alone[0].committed
            assert (spread[0] + alone[0]).shape == (2,)


@check
def derivatives() -> None:
    """Check that a derivative is sharded like its array, and is finite at zero."""
    for values in (np.ones((8, 16), np.float32), np.zeros((8, 16), np.float32)):
        array = shard_array(values, ("rows", "columns"))
        slope = jax.jit(jax.grad(lambda x: clip_by_global_norm(x, 1.25)[0].sum()))(array)
        expected = jax.grad(lambda x: clip_by_global_norm(x, 1.25)[0].sum())(jax.numpy.asarray(values))

        assert slope.sharding.is_equivalent_to(array.sharding, 2)
        np.testing.assert_allclose(np.asarray(slope), expected, rtol=0, atol=2.0**-22)


def main() -> None:
    """Run every check and print its outcome."""
    assert len(jax.devices()) == 8
    outcomes = {}
    for name, function in CHECKS.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                function()
            outcomes[name] = ""
        except BaseException:
            outcomes[name] = traceback.format_exc()
    print(json.dumps(outcomes))


@pytest.fixture(scope="module")
def outcomes() -> Any:
    """Return what the process with eight devices printed about its checks."""
    environment = os.environ | {
        "XLA_FLAGS": "--xla_force_host_platform_device_count=8",
        "JAX_PLATFORMS": "cpu",
        "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
    }
    done = subprocess.run([sys.executable, __file__], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.mark.parametrize("name", list(CHECKS))
def test_on_eight_devices(outcomes: dict[str, str], name: str) -> None:
    assert not outcomes[name], outcomes[name]


if __name__ == "__main__":
    main()
