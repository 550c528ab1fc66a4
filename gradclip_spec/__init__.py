"""Gradient clipping, specified: the rules as data (`rules`), and a reference for every array library.

Some words. The *leaves* of a tree of gradients are its arrays and None, in order. *Eager* is where Python may read
values and decide by them; *lazy* where it may not, because they are traced, computed later, on an accelerator, or to be
differentiated. A norm is *plain* if it is the root of a sum of squares that float64 holds with bits and range to spare:
the Euclidean one of elements narrower than float64, where there is float64, unless they are in blocks.

This is how `clip_by_global_norm(grads, clip_norm, inplace=True)` clips a few small float32 arrays of NumPy. In ten
minutes, read these, in this order:

1. `_functions.clip_by_global_norm`: its last seven lines. `_arguments` checks numbers.
2. `_engine`: `Gradients.of` and `Gradients.rebuilt`, `clip_together`, `_norm_and_total`. The `Library` of NumPy arrays:
   `xp` is NumPy, `primitives` are the functions of `_numpy`, `eager` is True and nothing is `chunked`.
3. `_norm`: `Norm`, `norm_of_all` and `_sum_of_squares`. This norm is plain: take the first branch of each. There
   `library.scalars.xp` is NumPy, `_plain_root` the square root, and `sum_of_squares_eager` is `_numpy.sum_of_squares`,
   which returns at its first `if`. The squares are added by `_float64_sums.sum_of_squares_in_float64`: read its loop,
   for which all arrays are one group, and `_sum_of_group`; `borrowed` is `np.empty` with old memory. Float64 holds the
   square of a float32 exactly, so the sum is as good as exact, and each `error` is 0 here. Rounded once, the norm is
   `total_norm`; the coefficient is made of the norm before that.
4. `_coefficient`: `Coefficient`, of one factor here, and `coefficient_of` up to the end of the branch for plain norms.
5. `_scaling`: `scaled`, and `_multiply_eager`, for which `_dtype_for` says float32 here. It ends at the first return of
   `_numpy.multiply`.

The rest is for gradients of other kinds, or for speed:

- New NumPy arrays, where nothing is done in place, are made several in one piece of memory (`_new_arrays`). Memory of
  intermediate results is used again (`_scratch`).
- Elements of float64, norms other than the Euclidean one, devices without float64: the sums of powers are exact or
  nearly so (`_powers`, `_exact_sums`), and the numbers made of them are pairs of floats (`_double_words`).
- Large arrays are summed in float32 (`_float32_sums`): of NumPy those of float32, of torch on the CPU narrower ones
  too. NumPy works on them in threads (`_threads`).
- Trees of arrays, and which of their leaves are included: `_trees`. Dtypes, and what is refused: `_library`. The
  formats of floats, and where the few numbers are computed that decide a clip: `_scalars`. Clips as objects, like
  those of Paddle: `_policies`.
- Other libraries: `_torch` and `_jax`. A library that follows the array API needs no code of its own on the CPU:
  `_primitives._standard` serves it. On an accelerator it needs a branch in `_primitives.of` that sets `eager`, and one
  with faster ways of its own needs a branch that names them.
- Arrays in blocks, which are chunks of Dask's arrays or shards of torch's: `_dask`, `_dtensors`.
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
