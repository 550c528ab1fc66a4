"""Gradient clipping, specified: the rules as data (`rules`), and a reference for all that array-api-compat knows.

Some words. The *leaves* of a tree of gradients are its arrays and None, in order. *Blocks* are chunks of Dask's arrays
and shards of torch's. *Eager* is where Python may read values and decide by them; *lazy* is everything else: traced,
computed later, on an accelerator, to be differentiated, or any array of JAX. A norm is *plain* if it is the root of a
sum of squares that float64 holds with bits and range to spare: the Euclidean one of elements narrower than float64,
where there is float64, unless they are in blocks.

This is how `clip_by_global_norm(grads, clip_norm, inplace=True)` clips a few small float32 arrays of NumPy, of no more
than 16,384 elements each and 65,536 together. In some ten minutes, read these, in this order:

1. `_functions.clip_by_global_norm`: its last seven lines. `_arguments` checks numbers and switches.
2. `_engine`: `Gradients.of` and `Gradients.rebuilt`, `clip_together`, `_norm_and_total`. `tree.rebuild` makes the list
   or dict again, and `context` silences NumPy's warnings. In the `Library` (module `_library`) of NumPy arrays, `xp` is
   NumPy as array-api-compat wraps it, `primitives` are functions of `_numpy` where it has them, `eager` is True and
   `primitives.chunked` False.
3. `_norm`: `Norm`, `norm_of_all` and `_sum_of_squares`. The norm is plain and the library eager, so these take their
   first branches, and so does `Norm.value`. There `library.scalars.xp` is NumPy with shortcuts for single numbers,
   `_plain_root` the square root, and `sum_of_squares_eager` is `_numpy.sum_of_squares`, which returns at its first
   `if`. It calls `_float64_sums.sum_of_squares_in_float64`: all arrays are one group, which the loop passes on whole to
   `_sum_of_group`. There `widen` copies the elements to float64 into `buffer`, which is scratch memory; zeros fill the
   last row of 1,024, and each row is one dot product. Float64 holds the square of a float32 exactly, and no square is
   negative: adding them errs by far less than float32 rounds, so `Norm.error` is 0. Back in `_norm_and_total`, the norm
   is rounded to float32 and returned as `total_norm`; the coefficient is made of the one in float64.
4. `_coefficient`: `Coefficient`, of one factor here, and `coefficient_of` up to the end of the branch for plain norms.
5. `_scaling`: `scaled` (`_indices_of_each` is `range(len(arrays))` unless an array stands in the tree twice) and
   `_multiply_eager`. For a coefficient of `2**-126` or more, `_dtype_for` says float32. The path ends at the first
   return of `_numpy.multiply`, where the third argument of `scale` is what it writes to.

The rest is for other clips, norms and gradients, or for speed:

- `clip_by_norm` and `clip_by_value`: `_engine.clip_each_by_norm` (`_norm.norms_of_each`, `_scaling.scaled_each`) and
  `_engine.clip_each_by_value`. Clips as objects, like those of Paddle: `_policies`.
- New NumPy arrays, where nothing is done in place, are made several in one piece of memory (`_new_arrays`). Memory of
  intermediate results is used again (`_scratch`).
- Elements of float64, norms other than the Euclidean one, devices without float64, and blocks: the sums of powers are
  exact or nearly so (`_powers`, `_exact_sums`), and a norm made of them is a pair of floats (`_double_words`) times a
  power of two.
- The squares of large arrays are summed in float32 for Euclidean norms (`_float32_sums`): of NumPy those of float32, of
  torch on the CPU narrower ones too. From 2 million elements together, NumPy arrays are worked on in threads
  (`_threads`).
- Trees of arrays, and which of their leaves are included: `_trees`. Dtypes, and arrays that are refused: `_library`.
  The formats of floats, and where the few numbers are computed that decide a clip: `_scalars`.
- Other libraries: `_torch` and `_jax`. A library that follows the array API needs no code of its own on the CPU:
  `_primitives._standard` serves it. On an accelerator it needs a branch in `_primitives.of` that sets `eager`, so that
  nothing waits for the device, and one with faster ways of its own needs a branch that names them.
- Arrays in blocks: `_dask`, `_dtensors`.
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
