"""Clip NumPy arrays by value, and support nothing else."""

from gradclip_adapters.plain import PlainFunction


def clip(grads, *, max, min=None):  # type: ignore[no-untyped-def]
    """Clip each element."""
    low = -max if min is None else min
    return [None if grad is None else grad.clip(low, max) for grad in grads]


adapter = PlainFunction(clip, "clip_by_value", dtypes=["float32"])
