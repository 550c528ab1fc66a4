"""Gradient clipping, specified: the rules as data (`rules`), and a reference for every array library.

What `clip_by_global_norm` does with a few float32 arrays of NumPy. In ten minutes, read what is named here:

1. `_functions.clip_by_global_norm`: its last lines. `_arguments` checks numbers; `_policies` are the same as objects.
2. `_engine`: `Gradients` and `clip_together`. A `Tree` (`_trees`) is what has been taken apart, a `Library`
   (`_library`) what the arrays are of: its fields.
3. `_norm`: `norm_of_all` and `_sum_of_squares`. The sum is one of the `Primitives` (`_primitives`), which each library
   has in its own way: `_numpy.sum_of_squares` is NumPy's.
4. `_coefficient`: `coefficient_of`, up to where it is about norms that are not plain.
5. `_scaling`: `scaled`, and from `_multiply_eager` on to `_dtype_for`. It ends in `_numpy.multiply`.

The rest is for gradients of other kinds, or for speed:

- float64 elements, other norms, no float64: `_powers` of exact sums (`_exact_sums`), as pairs of floats
  (`_double_words`).
- Large arrays on the CPU are summed in float32, and the bias of that is taken off (`_strips`), in memory that is used
  again (`_scratch`), those of NumPy in threads (`_threads`).
- Other libraries: `_torch` and `_jax`. One that follows the array API needs nothing (`_primitives._standard`); what it
  does better itself is a branch in `_primitives.of`, and a file beside `_jax`.
- Arrays in blocks, which are chunks of Dask's arrays or shards of torch's: `_dask`, `_dtensors`.

Words: *eager* is what is done where values may be looked at, *lazy* where they may not. A norm is *plain* if it is the
root of a sum of squares that float64 holds with bits to spare: of float32 and narrower ones, unless they are in blocks.
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
