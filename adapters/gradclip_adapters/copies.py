"""Compare what several processes returned, where all must have the same."""

from __future__ import annotations

from typing import Mapping, Sequence

from .arrays import INFINITY_BITS
from .contract import Array

__all__ = ["compare_copies", "compare_norms"]


def compare_copies(copies: Mapping[int, Array | None], name: str) -> list[str]:
    """Return a sentence for `Reply.apart` if a process has another copy than the first one. The keys are processes."""
    settled = {rank: _settle_nans(copy) for rank, copy in copies.items()}
    first = next(iter(settled), 0)
    other = next((rank for rank, copy in settled.items() if copy != settled[first]), None)
    return [] if other is None else [f"returned another {name} in process {other} than in process {first}"]


def compare_norms(norms: Sequence[Array | None]) -> list[str]:
    """Return a sentence for `Reply.apart` if a process has another norm than the first one."""
    settled = [_settle_nans(norm) for norm in norms]
    other = next((rank for rank, norm in enumerate(settled) if norm != settled[0]), None)
    if other is None:
        return []
    shown = [_show_norm(norms[0]), _show_norm(norms[other])]
    return [f"returned the norm {shown[0]} in process 0 and {shown[1]} in process {other}"]


def _show_norm(norm: Array | None) -> str:
    if norm is None:
        return "None"
    return norm.dtype if norm.dtype == "bfloat16" else str(norm.numpy().tolist())


def _settle_nans(array: Array | None) -> Array | None:
    """Return the array with the same bits for all NaNs, because their bits have no meaning."""
    if array is None or array.dtype not in INFINITY_BITS:
        return array
    bits = array.bits()
    infinity = bits.dtype.type(INFINITY_BITS[array.dtype])
    unsigned = bits & bits.dtype.type(2 ** (8 * bits.itemsize - 1) - 1)
    bits[unsigned > infinity] = infinity + 1
    return Array(array.dtype, array.shape, bits.tobytes())
