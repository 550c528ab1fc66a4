"""Compare the Optax adapter with direct calls of Optax. Needs Optax."""

from __future__ import annotations

from typing import Any

import jax
import ml_dtypes
import numpy as np
import optax
import pytest

from gradclip_adapters.contract import Array, Call, FrameworkRaised, Gradient, MissingDevice, Unsupported
from gradclip_adapters.frameworks.optax import OptaxAdapter

ADAPTER = OptaxAdapter()
EVERY = {subject.name: subject for subject in ADAPTER.subjects()}
#: The entry points with arrays of 64 bits, and a mask of flags.
ORDINARY = {name: subject for name, subject in EVERY.items() if not name.endswith((", without 64 bits]", "function]"))}
#: The functions that are called on examples or on their layers, those that also take parameters, and the projections.
EXAMPLES = sorted(name for name, subject in ORDINARY.items() if subject.operation == "clip_per_example")
LAYERS = [name for name in EXAMPLES if "layers" in EVERY[name].features]
PER_EXAMPLE = [name for name in EXAMPLES if name not in LAYERS]
UNITWISE = sorted(name for name, subject in ORDINARY.items() if subject.operation == "clip_unitwise")
PROJECTIONS = sorted(name for name in EVERY if "projection" in name)
#: The entry points of one device. `test_distributed_engines` tests the others.
SUBJECTS = {
    name: subject
    for name, subject in ORDINARY.items()
    if name not in (*EXAMPLES, *UNITWISE, *PROJECTIONS) and "distributed" not in subject.features
}
DTYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64}
VALUES = ([[3.0, -4.0, 0.5], [0.0, -0.0, 12.0]], [1.0, 2.0], 7.0)


def test_missing_device_is_named() -> None:
    with pytest.raises(MissingDevice, match="finds no device 'quantum' on this machine"):
        OptaxAdapter("quantum")
    assert ADAPTER.about().environment["device"] == "cpu"


def make_gradients(dtype: str) -> tuple[Gradient, ...]:
    """Return three gradients and a None among them."""
    arrays = [Array.of(np.array(values, DTYPES[dtype])) for values in VALUES]
    first, *rest = (Gradient(f"g{n}", array) for n, array in enumerate(arrays))
    return (first, Gradient("none", None), *rest)


def make_options(subject: str, threshold: float) -> dict[str, Any]:
    """Return options with the threshold under the name that the operation uses."""
    return {"max": threshold} if subject.startswith("optax.clip[") else {"clip_norm": threshold}


def clip_by_hand(subject: str, dtype: str, threshold: float) -> list[Array | None]:
    """Call the transformation that the entry point names, without the adapter."""
    with jax.enable_x64(True):
        first, *rest = (jax.numpy.asarray(np.array(values, DTYPES[dtype])) for values in VALUES)
        tree = [first, None, *rest]
        transformation = getattr(optax, subject.removeprefix("optax.").partition("[")[0])(threshold)
        update = jax.jit(transformation.update) if "jit" in subject else transformation.update
        clipped, _ = update(tree, transformation.init(tree))
    return [None if array is None else Array.of(np.asarray(array)) for array in clipped]


def test_about_gives_the_imported_versions() -> None:
    about = ADAPTER.about()

    assert about.version == optax.__version__
    assert about.environment["jax"] == jax.__version__


@pytest.mark.parametrize("subject", sorted(SUBJECTS))
@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("threshold", [1.5, 64.0])
def test_adapter_answers_like_a_direct_call(subject: str, dtype: str, threshold: float) -> None:
    reply = ADAPTER.call(Call(subject, make_gradients(dtype), make_options(subject, threshold)))

    assert [None if array is None else array.dtype for array in reply.gradients] == [dtype, None, dtype, dtype]
    assert list(reply.gradients) == clip_by_hand(subject, dtype, threshold)
    assert reply.norm is None


@pytest.mark.parametrize("name", ["clip", "clip_by_global_norm"])
def test_only_compiled_calls_are_traced(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original, traced = getattr(optax.tree, "clip" if name == "clip" else "norm"), []

    def watch(tree: Any, *arguments: Any) -> Any:
        traced.append(isinstance(jax.tree.leaves(tree)[0], jax.core.Tracer))
        return original(tree, *arguments)

    monkeypatch.setattr(optax.tree, "clip" if name == "clip" else "norm", watch)
    options = make_options(f"optax.{name}[jit]", 1.5)
    for subject, more in (("[eager]", {}), ("[eager]", {"compiled": True}), ("[jit]", {})):
        ADAPTER.call(Call(f"optax.{name}{subject}", make_gradients("float32"), {**options, **more}))

    assert traced == [False, True, True]


@pytest.mark.parametrize("subject", sorted(SUBJECTS))
@pytest.mark.parametrize("option", ["min", "norm_type", "error_if_nonfinite"])
def test_option_that_optax_does_not_have_is_refused_by_optax(subject: str, option: str) -> None:
    with pytest.raises(FrameworkRaised, match=f"unexpected keyword argument '{option}'"):
        ADAPTER.call(Call(subject, make_gradients("float32"), {**make_options(subject, 1.0), option: 1.0}))


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"layout": "strided"}, {}, "have no strides"),
        ({"rows": (0, 1), "height": 4}, {}, "row-sparse"),
        ({}, {"reused": True}, "immutable"),
    ],
)
def test_strides_rows_and_reuse_are_unsupported_for_arrays_of_jax(
    changes: dict[str, Any], options: dict[str, Any], message: str
) -> None:
    gradient = Gradient("a", Array.of(np.ones(2, np.float32)), **changes)

    with pytest.raises(Unsupported, match=message) as raised:
        ADAPTER.call(Call("optax.clip[eager]", (gradient,), {"max": 1.0, **options}))

    assert raised.value.kind == "interface"


@pytest.mark.parametrize("subject", PER_EXAMPLE)
@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("threshold", [1.5, 64.0])
def test_examples_are_clipped_like_in_a_direct_call(subject: str, dtype: str, threshold: float) -> None:
    values = [np.array(one, DTYPES[dtype]) for one in ([[3.0, -4.0], [0.5, 1.0]], [12.0, -0.25])]
    gradients = tuple(Gradient(f"g{number}", Array.of(one)) for number, one in enumerate(values))
    with jax.enable_x64(True):
        function = optax.per_example_global_norm_clip
        clip = jax.jit(function) if "jit" in subject else function
        sums, _ = clip([jax.numpy.asarray(one) for one in values], threshold)
        expected = tuple(Array.of(np.asarray(one)) for one in sums)

    reply = ADAPTER.call(Call(subject, gradients, {"clip_norm": threshold}))

    assert reply.gradients == expected
    assert reply.inputs == tuple(gradient.array for gradient in gradients)


@pytest.mark.parametrize("subject", LAYERS)
@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("layers", ["equal", "by size"])
def test_layers_of_examples_are_clipped_like_in_a_direct_call(subject: str, dtype: str, layers: str) -> None:
    values = [np.array(one, DTYPES[dtype]) for one in ([[3.0, -4.0], [0.5, 1.0]], [12.0, -0.25])]
    gradients = tuple(Gradient(f"g{number}", Array.of(one)) for number, one in enumerate(values))

    def clip(tree: Any) -> Any:
        return optax.per_example_layer_norm_clip(tree, 1.5, uniform=layers == "equal")[0]

    with jax.enable_x64(True):
        sums = (jax.jit(clip) if "jit" in subject else clip)([jax.numpy.asarray(one) for one in values])
        expected = tuple(Array.of(np.asarray(one)) for one in sums)

    assert ADAPTER.call(Call(subject, gradients, {"clip_norm": 1.5, "layers": layers})).gradients == expected


@pytest.mark.parametrize("subject", LAYERS)
def test_layers_have_no_common_norm(subject: str) -> None:
    one = Gradient("a", Array.of(np.array([[3.0, -4.0]], np.float32)))

    reply = ADAPTER.call(Call(subject, (one,), {"clip_norm": 2.5}))

    assert reply.gradients == (Array.of(np.array([1.5, -2.0], np.float32)),)
    with pytest.raises(Unsupported, match="each layer has a norm of its own") as raised:
        ADAPTER.call(Call(subject, (one, one), {"clip_norm": 2.5}))
    assert raised.value.kind == "interface"


@pytest.mark.parametrize("subject", UNITWISE)
@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("mask", [None, [False, True]])
def test_parameters_are_passed_to_the_clip(subject: str, dtype: str, mask: list[bool] | None) -> None:
    gradients = [np.array([[3.0, 1.0], [-4.0, 0.5]], DTYPES[dtype]), np.array([6.0, 8.0], DTYPES[dtype])]
    weights = [np.array([[5.0, 8.0], [0.0, 6.0]], DTYPES[dtype]), np.array([0.0, 5.0], DTYPES[dtype])]
    asked = [
        Gradient(f"g{number}", Array.of(one), need_clip=mask is None or mask[number], parameter=Array.of(weight))
        for number, (one, weight) in enumerate(zip(gradients, weights, strict=True))
    ]
    transformation: Any = optax.adaptive_grad_clip(0.5, eps=0.25)
    if mask is not None:
        transformation = optax.masked(transformation, mask)
    with jax.enable_x64(True):
        trees = [[jax.numpy.asarray(one) for one in tree] for tree in (gradients, weights)]
        update = jax.jit(transformation.update) if "jit" in subject else transformation.update
        expected = update(trees[0], transformation.init(trees[1]), trees[1])[0]
    reply = ADAPTER.call(Call(subject, (*asked, Gradient("none", None)), {"clip_factor": 0.5, "eps": 0.25}))

    assert reply.gradients == (*(Array.of(np.asarray(one)) for one in expected), None)
    assert (reply.gradients[0] == asked[0].array) == (mask is not None)
    assert reply.gradients[1] != asked[1].array


@pytest.mark.parametrize("name", ["clip_by_global_norm", "adaptive_grad_clip"])
@pytest.mark.parametrize("mode", ["eager", "jit"])
def test_mask_may_be_a_function(name: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original, masks = optax.masked, []

    def watch(transformation: Any, mask: Any) -> Any:
        masks.append(mask)
        return original(transformation, mask)

    monkeypatch.setattr(optax, "masked", watch)
    options = {"clip_factor": 0.5} if name == "adaptive_grad_clip" else {"clip_norm": 1.5}
    parameter = Array.of(np.array([1.0, 2.0], np.float32)) if name == "adaptive_grad_clip" else None
    values = [Array.of(np.array(one, np.float32)) for one in ([3.0, 4.0], [6.0, 8.0])]
    gradients = tuple(
        Gradient(f"g{number}", one, need_clip=number == 0, parameter=parameter) for number, one in enumerate(values)
    )

    replies = [
        ADAPTER.call(Call(f"optax.{name}[{title}]", gradients, options)) for title in (f"{mode}, mask function", mode)
    ]

    assert [callable(mask) for mask in masks] == [True, False]
    assert replies[0].gradients == replies[1].gradients
    assert [old == new for old, new in zip(values, replies[0].gradients, strict=True)] == [False, True]


@pytest.mark.parametrize("mode", ["eager", "jit"])
def test_arrays_of_64_bits_may_be_off(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    original, seen, before = optax.tree.norm, [], jax.config.jax_enable_x64

    def watch(tree: Any) -> Any:
        seen.append(jax.numpy.arange(1.0).dtype.name)
        return original(tree)

    monkeypatch.setattr(optax.tree, "norm", watch)
    for title in (mode, f"{mode}, without 64 bits"):
        subject = f"optax.clip_by_global_norm[{title}]"
        ADAPTER.call(Call(subject, make_gradients("float32"), {"clip_norm": 1.5}))

    assert seen == ["float64", "float32"]
    assert jax.config.jax_enable_x64 == before
    with pytest.raises(Unsupported, match="no arrays of 64 bits"):
        ADAPTER.call(Call(subject, make_gradients("float64"), {"clip_norm": 1.5}))


def project(subject: str, dtype: str, low: float, high: float) -> tuple[Array | None, ...]:
    """Call the projection that the entry point names, without the adapter."""
    name, _, mode = subject.removeprefix("optax.projections.").partition("[")
    with jax.enable_x64(True):
        first, *rest = (jax.numpy.asarray(np.array(values, DTYPES[dtype])) for values in VALUES)
        arguments: list[Any] = [high]
        if "trees as bounds" in mode:
            arguments = [[low, None, low, low], [high, None, high, high]]
        elif name == "projection_box":
            arguments = [low, high]
        function = getattr(optax.projections, name)
        result = (jax.jit(function) if "jit" in mode else function)([first, None, *rest], *arguments)
    return tuple(None if array is None else Array.of(np.asarray(array)) for array in result)


@pytest.mark.parametrize(("subject", "dtype"), [(name, dtype) for name in PROJECTIONS for dtype in EVERY[name].dtypes])
def test_projection_answers_like_a_direct_call(subject: str, dtype: str) -> None:
    low, high = (0.0 if "hypercube" in subject else -1.5), 1.5
    options = {"clip_norm": high}
    if EVERY[subject].operation == "clip_by_value":
        options = {"min": low, "max": high} if "min_max" in EVERY[subject].features else {"max": high}
    call = Call(subject, make_gradients(dtype), options)

    if "scalars as bounds" in subject or "hypercube" in subject:
        with pytest.raises(ValueError, match="pytree structure error"):
            project(subject, dtype, low, high)
        with pytest.raises(FrameworkRaised, match="pytree structure error"):
            ADAPTER.call(call)
    else:
        assert ADAPTER.call(call).gradients == project(subject, dtype, low, high)


@pytest.mark.parametrize("name", ["box[eager, scalars as bounds]", "hypercube[jit]"])
def test_single_gradient_is_projected_with_scalar_bounds(name: str) -> None:
    gradient = Gradient("a", Array.of(np.array([3.0, -4.0, 0.5], np.float32)))
    options = {"min": 0.0, "max": 1.0, "as_single": True}

    reply = ADAPTER.call(Call(f"optax.projections.projection_{name}", (gradient,), options))

    assert reply.gradients == (Array.of(np.array([1.0, 0.0, 0.5], np.float32)),)


def test_hypercube_begins_at_zero() -> None:
    gradient = Gradient("a", Array.of(np.array([3.0, -4.0], np.float32)))

    with pytest.raises(Unsupported, match="the lower bound of a hypercube is zero"):
        ADAPTER.call(Call("optax.projections.projection_hypercube[eager]", (gradient,), {"min": -1.0, "max": 1.0}))


@pytest.mark.parametrize("mode", ["eager", "jit"])
def test_empty_list_has_an_empty_list_of_parameters(mode: str) -> None:
    reply = ADAPTER.call(Call(f"optax.adaptive_grad_clip[{mode}]", (), {"clip_factor": 1.0}))

    assert reply.gradients == ()
