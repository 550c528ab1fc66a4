"""Specify gradient clipping: the rules as data (`rules`), and a reference implementation for any library's arrays.

`clip_by_value`, `clip_by_norm`, `clip_by_global_norm` and `global_norm` are the operations. `ClipByValue`, `ClipByNorm`
and `ClipByGlobalNorm` are the same operations as objects: like Paddle's classes, they are called on pairs of a
parameter and a gradient. `clip_by_block_rms` and `clip_by_average_norm` clip by averages over the elements.
`clip_per_example` clips each example of a batch, and `clip_unitwise` clips adaptively (AGC). `norm_contribution` is the
part of one rank in a norm over many ranks.
`gradclip_spec.torch` and `gradclip_spec.optax` offer the operations under the names and signatures that users of these
libraries know.
"""

from gradclip_spec._averages import clip_by_average_norm, clip_by_block_rms
from gradclip_spec._clip import clip_by_global_norm, clip_by_norm, clip_by_value, global_norm
from gradclip_spec._contributions import norm_contribution
from gradclip_spec._examples import clip_per_example
from gradclip_spec._policies import ClipByGlobalNorm, ClipByNorm, ClipByValue
from gradclip_spec._unitwise import clip_unitwise

__all__ = [
    "ClipByGlobalNorm",
    "ClipByNorm",
    "ClipByValue",
    "clip_by_average_norm",
    "clip_by_block_rms",
    "clip_by_global_norm",
    "clip_by_norm",
    "clip_by_value",
    "clip_per_example",
    "clip_unitwise",
    "global_norm",
    "norm_contribution",
]

#: The version is written here, because the reference also runs without an installed distribution and its metadata.
__version__ = "0.1.0"
