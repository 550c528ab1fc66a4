"""Compare `gradclip_spec.optax` with Optax's own transformations, under `jax.jit`, and use one in a chain."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import gradclip_spec.optax as own

optax = pytest.importorskip("optax", reason="Optax is not installed")

UPDATES = {"layer": [np.array([3.0, -4.0], np.float32), None], "head": (np.array([[12.0]], np.float32),)}


def run(transformation: Any, updates: Any = UPDATES) -> Any:
    """Return the updates after a compiled transformation."""
    updates = jax.tree.map(jax.numpy.asarray, updates)
    state = transformation.init(updates)
    return jax.jit(lambda updates: transformation.update(updates, state)[0])(updates)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (own.clip(2.0), optax.clip(2.0)),
        (own.clip_by_global_norm(6.5), optax.clip_by_global_norm(6.5)),
        (own.clip_by_global_norm(100.0), optax.clip_by_global_norm(100.0)),
    ],
)
def test_agrees_with_optax(ours: Any, theirs: Any) -> None:
    got, wanted = run(ours), run(theirs)
    assert jax.tree.structure(got) == jax.tree.structure(wanted)
    for x, y in zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)


def test_each_update_is_clipped_by_its_own_norm() -> None:
    got = run(own.clip_by_norm(2.5))
    np.testing.assert_allclose(got["layer"][0], [1.5, -2.0], rtol=1e-6)
    np.testing.assert_allclose(got["head"][0], [[2.5]], rtol=1e-6)


def test_transformations_work_in_a_chain() -> None:
    optimizer = optax.chain(own.clip_by_global_norm(1.0), optax.sgd(1.0))
    params = {"w": jax.numpy.zeros(2)}
    state = optimizer.init(params)
    updates, state = optimizer.update({"w": jax.numpy.asarray([3.0, 4.0])}, state, params)
    np.testing.assert_allclose(optax.apply_updates(params, updates)["w"], [-0.6, -0.8], rtol=1e-6)


def test_clip_is_right_if_optax_overflows() -> None:
    got = run(own.clip_by_global_norm(1.0), {"w": np.full(2, 1e30, np.float32)})
    np.testing.assert_allclose(got["w"], [0.5**0.5] * 2, rtol=1e-6)


@pytest.mark.parametrize("make", [own.clip, own.clip_by_norm, own.clip_by_global_norm])
def test_bad_thresholds_are_refused_at_once(make: Any) -> None:
    with pytest.raises(ValueError, match="max"):
        make(-1.0)
    with pytest.raises(TypeError, match="max"):
        make("1")
