"""Make Optax's clips do nothing."""

from __future__ import annotations

import optax


def leave(threshold: float) -> optax.GradientTransformation:
    """Return a transformation that clips nothing."""
    return optax.identity()


optax.clip = leave
optax.clip_by_global_norm = leave
optax.clip_by_block_rms = leave

from gradclip_adapters.frameworks.optax import OptaxAdapter  # noqa: E402 - it must find the functions replaced

adapter = OptaxAdapter()
