"""Gradient clipping, specified: the rules as data (`rules`), and a reference for every array library.

How `clip_by_global_norm` clips a few small float32 arrays of NumPy. In ten minutes, read these, in this order:

1. `_functions.clip_by_global_norm`: the body. `_arguments` checks numbers; the classes in `_policies` call these
   functions.
2. `_engine`: `Gradients.of`, `clip_together`, `_norm_and_total`. A tree's `leaves` are the arrays and None, in order;
   `included` gives the indices of those that exist and that `need_clip` does not exclude. The `Library` of NumPy
   arrays: `xp` is NumPy, `primitives` are the functions of `_numpy`, `eager` is True and nothing is `chunked`.
3. `_norm`: `Norm`, `norm_of_all` and `_sum_of_squares`, the first branch of each: this norm is plain. Read
   `library.scalars.xp` as NumPy; `sum_of_squares_eager` is `_numpy.sum_of_squares`, of which read up to the first
   return. The squares are added by `_float64_sums.sum_of_squares_in_float64`: read its loop and `_widened_sum`, and
   `borrowed` as `np.empty`. Float64 holds the square of a float32 exactly, so the sum is as good as exact, and the
   norm is rounded once, for `total_norm`. What follows uses it as it was before.
4. `_coefficient`: `Coefficient`, and `coefficient_of` up to the end of the branch for plain norms.
5. `_scaling`: `scaled`, and `_multiply_eager`, for which `_dtype_for` says float32 here. It ends in `_numpy.multiply`,
   for one array or in place at its first return; several new ones are made together, as parts of one piece of memory
   (`_new_arrays`).

The rest is for gradients of other kinds, or for speed:

- Elements of float64, norms other than the Euclidean one, devices without float64: the sums of powers are exact or
  nearly so (`_powers`, `_exact_sums`), and the numbers made of them are pairs of floats (`_double_words`).
- Large arrays on the CPU are summed in float32 (`_strips`), those of NumPy in threads (`_threads`). Intermediate
  results lie in memory that is used again (`_scratch`).
- Trees of arrays, and which of their leaves are included: `_trees`. Dtypes, and what is refused: `_library`. The
  formats of floats, and where the few numbers are computed that decide a clip: `_scalars`.
- Other libraries: `_torch` and `_jax`. One that follows the array API needs nothing on the CPU (`_primitives._standard`
  does). On an accelerator it needs a branch in `_primitives.of` that sets `eager`, and one with faster ways of its own
  needs a branch that names them.
- Arrays in blocks, which are chunks of Dask's arrays or shards of torch's: `_dask`, `_dtensors`.

Words: *eager* is where Python may read values and decide by them; *lazy* where it may not, because they are traced,
computed later, on an accelerator, or to be differentiated. A norm is *plain* if it is the root of a sum of squares that
float64 holds with bits and range to spare: the Euclidean one of all narrower elements, where there is float64, unless
they are in blocks.
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
