"""Gradient clipping, specified: the rules as data (`rules`), and a reference for every array library.

The reference, in the order in which a call goes through it: `_functions` (what is public; `_policies` are the same as
objects) checks numbers with `_arguments`; `_engine` has gradients taken apart by `_trees`, asks `_library` what their
library can do, has `_norm` make a norm and `_scaling` a coefficient, and multiplies. `_powers` and `_words` are the
arithmetic of norms that float64 does not hold with bits to spare.

What differs between libraries stands in `_primitives`: for speed on the CPU, `_numpy` and `_torch_tensors`, which sum
squares by `_strips` and share work out by `_threads`. Arrays in blocks have a file each: `_dask`, `_dtensors`.
"""

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
