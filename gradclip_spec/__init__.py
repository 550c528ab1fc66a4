"""Gradient clipping, specified: the rules as data (`rules`), and a reference for any library's arrays.

`clip_by_value`, `clip_by_norm`, `clip_by_global_norm` and `global_norm` are the operations; `ClipByValue`, `ClipByNorm`
and `ClipByGlobalNorm` are the same as objects, called on pairs as Paddle's are. `gradclip_spec.torch` and
`gradclip_spec.optax` offer them under the names and signatures that users of these libraries know.
"""

from gradclip_spec._clip import clip_by_global_norm, clip_by_norm, clip_by_value, global_norm
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

#: Here, because the reference also runs where the distribution, and with it its metadata, is not installed.
__version__ = "0.1.0"
