"""Compare the JAX adapter with direct calls of JAX. Needs JAX."""

from __future__ import annotations

from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
from jax.example_libraries.optimizers import clip_grads, l2_norm

from gradclip_adapters.contract import Array, Call, FrameworkRaised, Gradient, Unsupported
from gradclip_adapters.registry import resolve

ADAPTER = resolve("jax")
#: The entry points of one device. `test_distributed_engines` tests the others.
SUBJECTS = {subject.name: subject for subject in ADAPTER.subjects() if "distributed" not in subject.features}
DTYPES = {"float16": np.float16, "bfloat16": ml_dtypes.bfloat16, "float32": np.float32, "float64": np.float64}
VALUES = ([[3.0, -4.0, 0.5], [0.0, -0.0, 12.0]], [1.0, 2.0], 7.0)


def make_gradients(dtype: str) -> tuple[Gradient, ...]:
    """Return three gradients and a None among them."""
    first, *rest = (Gradient(f"g{n}", Array.of(np.array(values, DTYPES[dtype]))) for n, values in enumerate(VALUES))
    return (first, Gradient("none", None), *rest)


def test_about_gives_the_imported_version() -> None:
    assert ADAPTER.about().version == jax.__version__


@pytest.mark.parametrize(
    ("subject", "dtype"), [(name, dtype) for name, one in SUBJECTS.items() for dtype in one.dtypes]
)
@pytest.mark.parametrize("threshold", [1.5, 64.0])
def test_adapter_answers_like_a_direct_call(subject: str, dtype: str, threshold: float) -> None:
    with jax.enable_x64(True):
        first, *rest = (jax.numpy.asarray(np.array(values, DTYPES[dtype])) for values in VALUES)
        tree = [first, None, *rest]
        wrap = jax.jit if "[jit]" in subject else lambda function: function
        clipped = wrap(lambda values: clip_grads(values, threshold))(tree)
        norm = wrap(l2_norm)(tree)

    reply = ADAPTER.call(Call(subject, make_gradients(dtype), {"clip_norm": threshold}))

    assert list(reply.gradients) == [None if one is None else Array.of(np.asarray(one)) for one in clipped]
    assert {one.dtype for one in reply.gradients if one is not None} == {dtype}
    assert reply.norm == (Array.of(np.asarray(norm)) if "l2_norm" in subject else None)
    assert reply.inputs == tuple(gradient.array for gradient in make_gradients(dtype))


@pytest.mark.parametrize("subject", sorted(SUBJECTS))
@pytest.mark.parametrize("option", ["norm_type", "error_if_nonfinite"])
def test_option_that_jax_does_not_have_is_refused_by_jax(subject: str, option: str) -> None:
    with pytest.raises(FrameworkRaised, match=f"unexpected keyword argument '{option}'"):
        ADAPTER.call(Call(subject, make_gradients("float32"), {"clip_norm": 1.0, option: 1.0}))


def test_only_compiled_calls_are_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    traced = []

    def watch(tree: Any, max_norm: Any) -> Any:
        traced.append(isinstance(tree[0], jax.core.Tracer))
        return clip_grads(tree, max_norm)

    monkeypatch.setattr("jax.example_libraries.optimizers.clip_grads", watch)
    for mode, more in (("[eager]", {}), ("[eager]", {"compiled": True}), ("[jit]", {})):
        name = f"jax.example_libraries.optimizers.clip_grads{mode}"
        ADAPTER.call(Call(name, make_gradients("float32"), {"clip_norm": 1.0, **more}))

    assert traced == [False, True, True]


@pytest.mark.parametrize(
    ("changes", "options", "message"),
    [
        ({"layout": "strided"}, {}, "have no strides"),
        ({"rows": (0, 1), "height": 4}, {}, "row-sparse"),
        ({}, {"reused": True}, "immutable"),
    ],
)
def test_strides_rows_and_reuse_are_unsupported(changes: Any, options: Any, message: str) -> None:
    gradient = Gradient("a", Array.of(np.ones(2, np.float32)), **changes)

    with pytest.raises(Unsupported, match=message):
        ADAPTER.call(Call(min(SUBJECTS), (gradient,), {"clip_norm": 1.0, **options}))
