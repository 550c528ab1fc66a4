"""Check traced, compiled, batched, differentiated and lazy arrays. No value is read or computed early."""

from __future__ import annotations

import functools
import importlib
import math
import os
import shutil
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from gradclip_spec import clip_by_global_norm, clip_by_norm, clip_by_value, global_norm

CASES = [
    [3.0, 4.0],
    [0.3, 0.4],
    [0.0, 0.0],
    [1e30, 1e25],
    [1e-30, 1e-30],
    [math.nan, 1.0],
    [math.inf, 1.0],
    [1e-42, 0.0],
]


def run_operations(x: Any) -> list[Any]:
    """Run all three operations with two norms."""
    clipped, total = clip_by_global_norm([x, None], 2.5)
    return [clipped[0], total, clip_by_norm(x, 2.5, norm_type=3), clip_by_value(x, 2.5), global_norm(x, norm_type=1)]


def assert_same(got: Any, wanted: Any, ulps: int = 0) -> None:
    """Assert that results agree bit for bit, or within a number of roundings. NaN equals NaN."""
    __tracebackhide__ = True
    for one, other in zip(got, wanted, strict=True):
        left, right = np.asarray(one), np.asarray(other)
        with np.errstate(all="ignore"):
            gap = np.abs(left.astype(float) - right.astype(float)) <= ulps * np.spacing(np.abs(right)).astype(float)
        alike = gap | (left == right) | (np.isnan(left) & np.isnan(right))
        assert alike.all(), f"{left} is not {right}"


@pytest.mark.parametrize("values", CASES)
def test_jax_jit(values: list[float]) -> None:
    import jax

    x = np.array(values, np.float32)
    with np.errstate(all="ignore"):
        wanted = run_operations(x)
    if values[0] == 1e-42:
        # XLA treats subnormal numbers as zero, but arrays that do not change keep them.
        assert np.asarray(jax.jit(run_operations)(x)[0]).tolist() == x.tolist()
        return

    assert_same(jax.jit(run_operations)(jax.numpy.asarray(x)), wanted, ulps=2)


def test_jax_leaves_subnormal_numbers_within_the_threshold() -> None:
    import jax

    with jax.enable_x64(True):
        for dtype, subnormal in (("float32", 1e-42), ("float64", 1e-310)):
            x = np.array([subnormal, 0.5], dtype)
            for clip in (clip_by_norm, lambda x, threshold: clip_by_global_norm(x, threshold)[0]):
                assert np.array_equal(np.asarray(clip(jax.numpy.asarray(x), 1.0)), x)


@pytest.mark.parametrize("values", CASES[:5])
@pytest.mark.parametrize("threshold", [0.0, 0.2, 2.5])
def test_jax_derivatives(values: list[float], threshold: float) -> None:
    import jax

    x = jax.numpy.asarray(np.array(values, np.float32))
    weights = np.array([1.0, -2.0])
    got = jax.jit(jax.grad(lambda x: jax.numpy.sum(clip_by_global_norm(x, threshold)[0] * weights)))(x)

    point = np.array(x, np.float64)
    norm = math.hypot(*point)
    unit = point / norm if norm else point
    # The derivative of c x / |x| is c / |x| times the projection that removes the direction of x.
    wanted = weights if norm <= threshold else threshold / norm * (weights - unit * (weights @ unit))
    assert np.all(np.isfinite(got))
    np.testing.assert_allclose(
        got, wanted, rtol=0, atol=2e-6 * max(float(np.abs(wanted).max()), threshold / norm if norm else 0)
    )


def test_jax_batches_and_second_derivatives() -> None:
    import jax

    rows = jax.numpy.asarray(np.array([[3.0, 4.0], [0.3, 0.4], [0.0, 0.0]], np.float32))

    batched = jax.vmap(lambda x: clip_by_global_norm(x, 2.5)[0])(rows)

    assert_same(list(batched), [np.array([1.5, 2.0]), np.asarray(rows[1]), np.array([0.0, 0.0])])
    curvatures = jax.jit(jax.vmap(jax.hessian(lambda x: clip_by_global_norm(x, 2.5)[0].sum())))(rows)
    assert np.all(np.isfinite(curvatures))


def list_functions(norm_type: float) -> list[Callable[[Any], Any]]:
    """Return functions of one array, whose results depend on its derivatives in other ways."""
    return [
        lambda x: sum(y.sum() for y in clip_by_norm([x, 2 * x], 1.0, norm_type=norm_type)),
        lambda x: sum((y**2).sum() for y in clip_by_global_norm([x, 2 * x], 1.0, norm_type=norm_type)[0]),
        lambda x: global_norm([x, 2 * x], norm_type=norm_type) ** 2,
    ]


@pytest.mark.parametrize("norm_type", [1, 2, 3, math.inf])
def test_jax_derivatives_agree_however_they_are_taken(norm_type: float) -> None:
    import jax

    x = jax.numpy.asarray([3.0, 4.0, 0.0])
    put = jax.device_put(x, jax.devices()[0])
    for function in list_functions(norm_type):
        # The array is made outside the context in which JAX has float64.
        first, second, compiled = jax.grad(function)(x), jax.hessian(function)(x), jax.jit(function)
        assert np.all(np.isfinite(second))
        firsts = (jax.jit(jax.grad(function)), jax.grad(compiled), jax.grad(jax.checkpoint(function)))
        for derivative in (*firsts, jax.jacfwd(compiled)):
            np.testing.assert_allclose(derivative(x), first, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(jax.grad(function)(put), first, rtol=1e-6, atol=1e-7)
        # Without float64 by default, the second of two reverse passes cannot transpose a slice of float64 numbers.
        for derivative in (jax.hessian(compiled), jax.jacfwd(firsts[0]), jax.jacrev(jax.grad(function))):
            np.testing.assert_allclose(derivative(x), second, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("norm_type", [1, 1.5, 2, 3, math.inf])
def test_jax_second_derivatives_of_a_clip_in_a_loop(norm_type: float) -> None:
    import jax

    def clip(x: Any) -> Any:
        return clip_by_norm(x * 1.5, 1.0, norm_type=norm_type)

    def loop(x: Any) -> Any:
        return jax.lax.scan(lambda x, _: (clip(x), None), x, None, length=2)[0].sum()

    x = jax.numpy.asarray([3.0, 4.0])
    wanted = jax.hessian(lambda x: clip(clip(x)).sum())(x)
    for hessian in (jax.hessian(loop), jax.jit(jax.hessian(loop)), jax.jacrev(jax.grad(loop))):
        np.testing.assert_allclose(hessian(x), wanted, rtol=1e-4, atol=1e-5)


#: A largest magnitude N, a threshold c, and the derivative of the sum of the clipped vector (N, N / 2). The derivative
#: by the second element is c / N. The derivative by the first element is minus half of that, because this element is
#: the norm.
FAR_NORMS = [(1e-160, 1.0, [1.0, 1.0]), (1e-160, 1e-161, [-0.05, 0.1]), (1e160, 1e159, [-0.05, 0.1])]


@pytest.mark.parametrize("library", ["jax", "torch"])
@pytest.mark.parametrize(("norm", "threshold", "wanted"), FAR_NORMS)
def test_derivatives_of_norms_far_from_one(library: str, norm: float, threshold: float, wanted: list[float]) -> None:
    def clip(x: Any) -> Any:
        return clip_by_global_norm(x, threshold, norm_type=math.inf)[0].sum()

    module, values = importlib.import_module(library), np.array([norm, norm / 2])
    if library == "jax":
        with module.enable_x64(True):
            slopes = module.grad(clip)(module.numpy.asarray(values))
    else:
        slopes = module.func.grad(clip)(module.from_numpy(values))

    np.testing.assert_allclose(slopes, wanted, rtol=1e-14)


@pytest.mark.parametrize("library", ["jax", "torch"])
@pytest.mark.parametrize("norm_type", [2, math.inf])
@pytest.mark.parametrize(
    ("values", "threshold", "weights"),
    [
        # Derivatives sum products of weights and elements, and of derivatives of the coefficient. float32 cannot hold
        # these sums.
        ([1e36] * 999 + [1.001e36], 1e35, [2.0] + [1.0] * 999),
        ([3e19, 4e19], 1.0, [1.0, 0.0]),
        ([3e-20, 4e-20], 1e-21, [1e-19, 0.0]),
    ],
)
def test_derivatives_at_the_ends_of_the_range(
    library: str, norm_type: float, values: list[float], threshold: float, weights: list[float]
) -> None:
    module = importlib.import_module(library)
    x, w = np.array(values, np.float32), np.array(weights, np.float32)
    if library == "jax":
        array, direction, transform = module.numpy.asarray(x), module.numpy.asarray(w), module
    else:
        array, direction, transform = module.from_numpy(x), module.from_numpy(w), module.func

    point, along = x.astype(np.float64), w.astype(np.float64)
    norm = np.linalg.norm(point, norm_type)
    # This is the derivative of the norm. Each clipped element depends on all others through the norm.
    slope = point / norm if norm_type == 2 else (point == norm).astype(float)
    back = threshold / norm * (along - slope * (point / norm @ along))
    forward = threshold / norm * (along - point / norm * (slope @ along))
    clips: list[Any] = [
        lambda x: clip_by_global_norm(x, threshold, norm_type=norm_type)[0],
        lambda x: clip_by_norm(x, threshold, norm_type=norm_type),
    ]
    for clip in clips:
        (got_back,) = transform.vjp(clip, array)[1](direction)
        with warnings.catch_warnings():
            # torch's own derivatives in forward mode warn.
            warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", DeprecationWarning)
            _, got_forward = transform.jvp(clip, (array,), (direction,))
        np.testing.assert_allclose(got_back, back, rtol=1e-5, atol=1e-6 * np.abs(back).max())
        np.testing.assert_allclose(got_forward, forward, rtol=1e-5, atol=1e-6 * np.abs(forward).max())


@pytest.mark.parametrize("norm_type", [1, 2, 3, math.inf])
def test_jax_derivatives_of_infinite_elements_within_an_infinite_threshold(norm_type: float) -> None:
    import jax

    x, direction = jax.numpy.asarray([1.0, math.inf]), jax.numpy.asarray([2.0, 3.0])
    for clip in (clip_by_norm, lambda *arguments, **options: clip_by_global_norm(*arguments, **options)[0]):
        tangent = jax.jvp(lambda x, clip=clip: clip(x, math.inf, norm_type=norm_type), (x,), (direction,))[1]
        assert tangent.tolist() == [2.0, 3.0]


@pytest.mark.parametrize(("dtype", "small"), [("float32", 2.0**-13), ("float64", 2.0**-25)])
def test_jax_derivatives_just_above_the_threshold(dtype: str, small: float) -> None:
    # The norm is above the threshold by so little that the coefficient, or its first factor, is 1 in the dtype.
    import jax

    with jax.enable_x64(True):
        x = jax.numpy.asarray([1.0, small], dtype)
        got = jax.jacrev(lambda x: clip_by_global_norm(x, 1.0)[0])(x)
        # The threshold is so far below the norm that the coefficient has three factors, and the first one is 1.
        tiny = jax.jacrev(lambda x: clip_by_global_norm(x, 2.0**-520)[0])(jax.numpy.asarray([2.0**-513, 0.0]))

    np.testing.assert_allclose(got, [[small**2, -small], [-small, 1.0]], atol=small**2)
    np.testing.assert_allclose(tiny, [[0.0, 0.0], [0.0, 2.0**-7]])


def test_jax_export_with_symbolic_sizes() -> None:
    import jax
    from jax import export

    (size,) = export.symbolic_shape("size")
    for clip in (clip_by_norm, clip_by_value, lambda grads, limit: clip_by_global_norm(grads, limit)[0]):
        shapes = [jax.ShapeDtypeStruct((size, 2), np.float32), jax.ShapeDtypeStruct((3,), np.float32)]
        exported = export.export(jax.jit(lambda *grads, clip=clip: clip(list(grads), 1.0)))(*shapes)
        arrays = [jax.numpy.full((5, 2), 3.0), jax.numpy.ones(3)]
        for got, wanted in zip(exported.call(*arrays), clip(arrays, 1.0), strict=True):
            np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_jax_dtypes_outside_the_call_do_not_change() -> None:
    import jax

    clipped, total = jax.jit(lambda x: clip_by_global_norm(x, 1.0))(jax.numpy.ones(3))

    assert {clipped.dtype.name, total.dtype.name, jax.numpy.ones(3).dtype.name} == {"float32"}


def test_jax_keeps_weak_types() -> None:
    import jax

    # A derivative with respect to a Python number is weakly typed: it takes the dtype of its partner.
    gradient = jax.grad(lambda x: 3 * x**2)(2.0)
    assert gradient.weak_type
    for clip in (
        lambda x: clip_by_value(x, 1.0),
        lambda x: clip_by_value(x, 1.0, 0.0),
        lambda x: clip_by_norm(x, 1.0),
        lambda x: clip_by_norm(x, 1.0, norm_type=3),
        lambda x: clip_by_global_norm(x, 1.0)[0],
        lambda x: clip_by_global_norm(x, 1.0)[1],
        lambda x: jax.lax.cond(True, lambda x: clip_by_value(x, 1.0), lambda x: x, x),
    ):
        assert [clip(gradient).dtype, jax.jit(clip)(gradient).dtype] == [gradient.dtype] * 2


def test_jax_traced_norm_cannot_raise() -> None:
    import jax

    with pytest.raises(TypeError, match="error_if_nonfinite"):
        jax.jit(lambda x: clip_by_global_norm(x, 1.0, error_if_nonfinite=True))(jax.numpy.ones(3))


@pytest.mark.parametrize("norm_type", [1, 2, 3, math.inf])
def test_torch_vmap_of_several_tensors(norm_type: float) -> None:
    import torch

    rows = torch.tensor([[3.0, -4.0], [0.1, 0.2], [0.0, 0.0]])

    def clip_each(x: Any) -> Any:
        grads = [x, 2 * x.double()]
        together, norm = clip_by_global_norm(grads, 2.5, norm_type=norm_type)
        return [*together, norm, *clip_by_norm(grads, 2.5, norm_type=norm_type), clip_by_value(x, 1.0)]

    batched = torch.func.vmap(clip_each)(rows)

    for index, row in enumerate(rows):
        assert_same([result[index] for result in batched], clip_each(row), ulps=2)


def test_torch_derivatives_in_forward_mode() -> None:
    import torch

    forward_ad = torch.autograd.forward_ad
    with warnings.catch_warnings(), forward_ad.dual_level():
        # torch's own derivatives in forward mode warn.
        warnings.filterwarnings("ignore", "`torch.jit.script` is deprecated", DeprecationWarning)
        x = forward_ad.make_dual(torch.tensor([3.0, 4.0]), torch.tensor([1.0, 0.0]))
        clipped, norm = clip_by_global_norm([x], 1.0)
        each = clip_by_norm(x, 1.0)
        # Along e, the derivative of c x / N is c e / N - c x (x . e) / N**3, and that of N is x . e / N.
        for result in (clipped[0], each):
            torch.testing.assert_close(forward_ad.unpack_dual(result).tangent, torch.tensor([0.128, -0.096]))
        torch.testing.assert_close(forward_ad.unpack_dual(norm).tangent, torch.tensor(0.6))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("clip", [clip_by_norm, lambda grads, threshold: clip_by_global_norm(grads, threshold)[0]])
def test_torch_second_derivatives_at_a_zero_gradient(clip: Any, dtype: str) -> None:
    import torch

    zero = torch.zeros(2, dtype=getattr(torch, dtype), requires_grad=True)
    other = torch.tensor([3.0, 4.0], dtype=getattr(torch, dtype), requires_grad=True)
    for grads in ([zero], [zero, other]):
        total = sum((x * x).sum() for x in clip(grads, 1.0))
        (first,) = torch.autograd.grad(total, zero, create_graph=True)
        (second,) = torch.autograd.grad(first.sum(), zero)
        assert bool(torch.isfinite(first).all())
        assert bool(torch.isfinite(second).all())
    of_both = torch.func.jacrev(torch.func.grad(lambda x: (clip([x, other], 1.0)[0] ** 2).sum()))(torch.zeros(2))
    assert bool(torch.isfinite(of_both).all())
    rows = torch.stack([torch.zeros(2), torch.tensor([3.0, 4.0])]).to(zero.dtype).requires_grad_()
    results = torch.func.vmap(lambda row: clip([row], 1.0)[0])(rows)
    (first,) = torch.autograd.grad((results**2).sum(), rows, create_graph=True)
    (second,) = torch.autograd.grad(first.sum(), rows)
    assert second[0].tolist() == [2.0, 2.0]
    assert bool(torch.isfinite(second).all())


@pytest.mark.parametrize("norm_type", [0.5, 1, 2, 3, 100, math.inf])
@pytest.mark.parametrize("dtype", ["bfloat16", "float32", "float64"])
def test_torch_derivatives_of_clips_in_place(norm_type: float, dtype: str) -> None:
    import torch

    for clip in (clip_by_norm, lambda x, *arguments, **options: clip_by_global_norm(x, *arguments, **options)[0]):
        slopes = []
        for inplace in (False, True):
            x = torch.tensor([3.0, 4.0], dtype=getattr(torch, dtype), requires_grad=True)
            (clip(x * 1, 1.0, norm_type=norm_type, inplace=inplace)[0]).backward()
            slopes.append(x.grad)
        assert torch.equal(*slopes)
        assert bool((slopes[0] != 0).any())


def _sum_clipped(clip: Any, x: Any) -> Any:
    arrays = [x * 1, x * 2]
    clip(arrays, 1.0, inplace=True)
    return arrays[0].sum() + arrays[1].sum()


def test_torch_in_place_on_a_tensor_from_outside_a_transformation() -> None:
    import torch

    inside, outside = torch.full((3, 4), 2.0), torch.full((4,), 2.0)
    for clip in (clip_by_norm, clip_by_global_norm):
        with pytest.raises(TypeError, match=r"`inplace=True` .* at '1'.* outside of a transformation"):
            torch.func.vmap(lambda x, clip=clip: clip([x, outside], 1.0, inplace=True))(inside)
        assert inside.tolist() == [[2.0] * 4] * 3
        assert outside.tolist() == [2.0] * 4

        def multiply(x: Any, y: Any, clip: Any = clip) -> Any:
            # The inner transformation contains both tensors, and the outer one contains only the first.
            x, y = x * 1, y * 1
            with pytest.raises(TypeError, match=r"`inplace=True` .* at '1'"):
                clip([x, y], 1.0, inplace=True)
            return x.sum() * y.sum()

        slopes = torch.func.vmap(torch.func.grad(multiply), in_dims=(0, None))(inside, outside)
        assert slopes.tolist() == [[8.0] * 4] * 3
        clipped = torch.func.vmap(torch.func.grad(lambda x, clip=clip: _sum_clipped(clip, x)))(inside)
        # Tensors that all belong to the same transformations can be clipped in place.
        assert float(clipped.abs().max()) < 1e-6
    torch.func.vmap(lambda x: clip_by_norm([x, 2 * x], 1.0, inplace=True))(inside)
    assert inside.tolist() == [[0.5] * 4] * 3


@pytest.fixture(params=["eager", "inductor"])
def compiled(request: pytest.FixtureRequest) -> Iterator[Any]:
    """Compile a whole function with a backend.

    Users get inductor by default. It decides which values to compute twice instead of keeping them.
    """
    import torch

    compiler = os.environ.get("CXX", "g++")
    if request.param == "inductor" and not shutil.which(compiler):
        pytest.skip(f"inductor needs a C++ compiler, and there is no {compiler}")
    torch.compiler.reset()
    with warnings.catch_warnings():
        # Dynamo warns that it traces through the caches of array-api-compat. The other warnings are torch's own.
        warnings.simplefilter("ignore")
        yield functools.partial(torch.compile, backend=request.param, fullgraph=True)


@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("clip", "dtype"),
    [
        (clip_by_value, "float32"),
        (clip_by_norm, "float32"),
        (lambda grads, limit: clip_by_global_norm(grads, limit)[0], "bfloat16"),
        (lambda grads, limit: clip_by_global_norm(grads, 2.0, eps=min(limit, 9.0))[0], "float32"),
        (lambda grads, limit: clip_by_global_norm(grads, limit)[0], "float64"),
        (lambda grads, limit: clip_by_norm(grads, limit, norm_type=3), "float32"),
    ],
    ids=["value", "norm", "global norm", "eps", "float64", "norm_type=3"],
)
def test_torch_compiled_with_a_number_that_changes(compiled: Any, clip: Any, dtype: str) -> None:
    import torch

    function = compiled(lambda grads, limit: clip(grads, limit))  # noqa: PLW0108 - the compiler is given a plain function
    for limit in (1.0, 2.5, math.inf, 8.0, 0.0):
        for factor in (1.0, 0.1):
            grads = [torch.tensor([3.0, 4.0], dtype=getattr(torch, dtype)) * factor]
            torch.testing.assert_close(function(grads, limit), clip(grads, limit))


@pytest.mark.timeout(600)
def test_torch_compiles_the_whole_function(compiled: Any) -> None:
    import torch

    function = compiled(run_operations)
    for values in CASES:
        assert_same(function(torch.tensor(values)), run_operations(torch.tensor(values)), ulps=2)


@pytest.mark.timeout(600)
def test_torch_compiled_keeps_the_sign_of_a_zero_within_the_bounds(compiled: Any) -> None:
    import torch

    x = torch.tensor([-0.0, 0.0, 3.0, -3.0])
    for inplace in (False, True):
        function = compiled(lambda x, inplace=inplace: clip_by_value(x, 1.0, 0.0, inplace=inplace))
        clipped = function(x.clone())
        assert clipped.tolist() == [0.0, 0.0, 1.0, 0.0]
        assert torch.signbit(clipped).tolist() == [True, False, False, False]


@pytest.mark.parametrize(("norm_type", "dtype"), [(1, "float32"), (2, "float32"), (3, "float32"), (2, "float64")])
def test_torch_recompiles_rarely_for_many_sizes(norm_type: float, dtype: str) -> None:
    import torch

    counter = importlib.import_module("torch._dynamo.testing").CompileCounter()

    def clip(x: Any) -> Any:
        return clip_by_norm([x, x + 1], 1.0, norm_type=norm_type)[1]

    torch.compiler.reset()
    function = torch.compile(clip, backend=counter, dynamic=True, fullgraph=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for size in (2, 3, 4, 5, 6, 7, 100, 200, 1000, 3000, 70_000):
            x = torch.linspace(-1, 1, size, dtype=getattr(torch, dtype))
            torch.testing.assert_close(function(x), clip(x))

    # torch may compile again at two sizes: where arrays are no longer joined, and where the count of the elements needs
    # more bits (20 instead of 10).
    assert counter.frame_count <= 3


@pytest.mark.parametrize("threshold", [0.5, 0.5 * (1 + 0.95 * 2.0**-24)])
@pytest.mark.parametrize(("norm_type", "dtype"), [(2, "float32"), (1, "float32"), (3, "float32"), (2, "float64")])
def test_torch_records_its_operations_for_replay(threshold: float, norm_type: float, dtype: str) -> None:
    import torch

    fx = importlib.import_module("torch.fx.experimental.proxy_tensor")
    x = torch.tensor([0.0, 1.0, 0.0], dtype=getattr(torch, dtype))

    def clip(x: Any) -> Any:
        return clip_by_global_norm([x], threshold, norm_type=norm_type)[0][0]

    with warnings.catch_warnings():
        # torch warns about its own options and internals.
        warnings.simplefilter("ignore")
        recorded = [torch.jit.trace(clip, (x,)), fx.make_fx(clip)(x), fx.make_fx(clip, tracing_mode="symbolic")(x)]
    for function in recorded:
        for factor in (1.0, 5.0, 0.25):
            torch.testing.assert_close(function(factor * x), clip(factor * x))


@pytest.mark.parametrize(("norm_type", "dtype"), [(2, "float32"), (1, "float32"), (3, "float32"), (2, "float64")])
def test_torch_export_with_symbolic_sizes(norm_type: float, dtype: str) -> None:
    import torch

    class Clip(torch.nn.Module):
        def forward(self, x: Any, y: Any) -> Any:
            together = clip_by_global_norm([x, y], 1.0, norm_type=norm_type)[0]
            return [*together, *clip_by_norm([x, y], 1.0, norm_type=norm_type), *clip_by_value([x, y], 0.5)]

    array = functools.partial(torch.ones, dtype=getattr(torch, dtype))
    size = torch.export.Dim("size", min=2, max=100_000)
    with warnings.catch_warnings():
        # torch gives warnings in its own code.
        warnings.filterwarnings("ignore", category=DeprecationWarning)
        warnings.filterwarnings("ignore", category=FutureWarning)
        exported = torch.export.export(
            Clip(), (array(5, 2), array(3)), dynamic_shapes=({0: size}, None), strict=False
        ).module()
    for count in (7, 70_000):
        for got, wanted in zip(exported(array(count, 2), array(3)), Clip()(array(count, 2), array(3)), strict=True):
            torch.testing.assert_close(got, wanted)


@pytest.mark.parametrize("reads_values", [True, False])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_torch_autocast_changes_nothing(dtype: str, reads_values: bool) -> None:
    import torch

    shapes: list[tuple[int, ...]] = [(300_000,), (3, 4), (3, 4)]
    grads = [torch.ones(shape, dtype=getattr(torch, dtype), requires_grad=not reads_values) for shape in shapes]

    def clip(norm_type: float) -> list[Any]:
        together, norm = clip_by_global_norm(grads, 1.0, norm_type=norm_type)
        return [*together, norm, *clip_by_norm(grads, 1.0, norm_type=norm_type), *clip_by_value(grads, 0.1)]

    for norm_type in (1, 2, 3):
        expected = clip(norm_type)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            results = clip(norm_type)
        assert [result.dtype for result in results] == [value.dtype for value in expected]
        assert all(torch.equal(result, value) for result, value in zip(results, expected, strict=True))


@pytest.mark.timeout(600)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_torch_compiled_under_autocast_changes_nothing(compiled: Any, dtype: str) -> None:
    import torch

    grads = [torch.full(shape, 3.0, dtype=getattr(torch, dtype)) for shape in [(7,), (3, 4)]]

    def clip(grads: list[Any]) -> list[Any]:
        by_global_norm, norm = clip_by_global_norm(grads, 1.0)
        return [*by_global_norm, norm, *clip_by_norm(grads, 1.0, norm_type=3), *clip_by_value(grads, 0.1)]

    expected = clip(grads)
    for narrow in (torch.float16, torch.bfloat16):
        with torch.autocast("cpu", dtype=narrow):
            results = compiled(clip)(grads)
            assert torch.is_autocast_enabled("cpu")
        assert [result.dtype for result in results] == [value.dtype for value in expected]
        for result, value in zip(results, expected, strict=True):
            torch.testing.assert_close(result, value)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("threshold", [5e-324, 1e-310, 1e-45, 1e-8, 0.1])
def test_torch_lazy_and_eager_results_agree(dtype: str, threshold: float) -> None:
    import torch

    # The largest numbers of the dtype, with a norm that both ways compute without rounding.
    unit = 2.0 ** (math.frexp(torch.finfo(getattr(torch, dtype)).max)[1] - 4)
    x = torch.tensor([3 * unit, -4 * unit], dtype=getattr(torch, dtype))
    clipped, total = clip_by_global_norm([x.clone().requires_grad_()], threshold)
    wanted, norm = clip_by_global_norm([x], threshold)

    assert (clipped[0].dtype, total.dtype) == (x.dtype, norm.dtype)
    assert_same([clipped[0].detach().double(), total.detach()], [wanted[0].double(), norm])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_dask_computes_nothing_early(dtype: str) -> None:
    import dask
    from dask import array

    computed = []

    def count_tasks(graph: Any, keys: Any, **options: Any) -> Any:
        computed.append(keys)
        return dask.get(graph, keys, **options)

    values = np.arange(24, dtype=dtype).reshape(4, 6)
    with dask.config.set(scheduler=count_tasks):
        x = array.from_array(values, chunks=(2, 3))
        results = run_operations(x)
        assert computed == []
        got = dask.compute(*results)

    assert len(computed) == 1
    assert_same(got, run_operations(values), ulps=2)


def test_dask_refuses_masked_arrays_at_once() -> None:
    from dask import array

    masked = array.ma.masked_greater(array.ones(4), 0.5)
    for call in (lambda: clip_by_value([masked], 0.5), lambda: global_norm(masked)):
        with pytest.raises(TypeError, match="masked array; fill the masked elements"):
            call()


def test_dask_tasks_whose_keys_are_numbers() -> None:
    # The tasks of a clip hold numbers: the norm type and the thresholds. Dask must not take them for keys of tasks.
    import dask
    from dask import array

    for number in (2, 3, 0.5):
        values = dask.delayed(lambda: np.array([3.0, 4.0]))(dask_key_name=number)
        x = array.from_delayed(values, (2,), float)
        for norm_type in (2, 3, 0.5):
            expected = clip_by_global_norm(np.array([3.0, 4.0]), 2, norm_type=norm_type, eps=0.5)
            clipped = clip_by_global_norm(x, 2, norm_type=norm_type, eps=0.5)
            assert_same(dask.compute(*clipped, scheduler="synchronous"), expected, ulps=1)
        assert clip_by_value(x, 3, 2).compute().tolist() == [3.0, 3.0]


def test_dask_errors_of_user_functions_propagate() -> None:
    from dask import array

    def fail(block: Any) -> Any:
        raise OSError("the disk is gone")

    x = array.ones(4, chunks=2).map_blocks(fail, meta=np.empty(0))
    with pytest.raises(OSError, match="the disk is gone"):
        clip_by_global_norm(x, 1.0, error_if_nonfinite=True)


def test_dask_chunks_of_unknown_size() -> None:
    from dask import array

    values = np.arange(-8.0, 9.0)
    x = array.from_array(values, chunks=5)

    clipped, total = clip_by_global_norm(x[x > 0], 1.0)

    assert float(total) == float(global_norm(values[values > 0]))
    assert_same([clipped.compute()], [clip_by_global_norm(values[values > 0], 1.0)[0]], ulps=1)
    assert_same([clip_by_norm(x[x > 0], 1.0).compute()], [clip_by_norm(values[values > 0], 1.0)], ulps=1)
    assert_same([clip_by_value(x[x > 0], 3.5).compute()], [clip_by_value(values[values > 0], 3.5)])
