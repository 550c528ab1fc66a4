"""Gradient clipping, specified: the rules as data (`rules`), and a reference for every array library.

What `clip_by_global_norm` does with a few float32 arrays of NumPy; who has ten minutes reads these files:

1. `_functions` is what is public, and checks the numbers (`_arguments`). `_policies` are the same as objects.
2. `_engine`: `Gradients.of` takes the tree apart (`_trees`) and asks what its library can do (`_library`).
3. `_norm`: `norm_of_all` sums the squares in float64 and takes the root.
4. `_coefficient`: the threshold over the norm. `_scaling`: `scaled` multiplies the arrays by it.
5. `_engine` again: `Gradients.rebuilt` puts the tree together.

The rest is for gradients of other kinds, or for speed:

- float64 elements, other norms, no float64: `_powers` of exact sums (`_exact_sums`), as pairs of floats
  (`_double_words`).
- What a library does in its own way: `_primitives`, with `_numpy`, `_torch` and `_jax`. On the CPU, large arrays are
  summed in float32 (`_strips`), in memory that is used again (`_scratch`), those of NumPy in threads (`_threads`).
- Arrays in blocks, which are chunks of Dask's arrays or shards of torch's: `_dask`, `_dtensors`.

Three words: *eager* is what is done where values may be looked at, *lazy* where they may not; a norm is *plain* if
float64 holds the sum of its squares with bits to spare.
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
