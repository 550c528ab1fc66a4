"""Gradient clipping, specified: the rules as data, and a reference for every array library."""

from gradclip_spec._functions import clip_by_global_norm, clip_by_norm, clip_by_value, global_norm
from gradclip_spec._policies import ClipByGlobalNorm, ClipByNorm, ClipByValue

__all__ = [
    "ClipByGlobalNorm",
    "ClipByNorm",
    "ClipByValue",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "global_norm",
]
