"""Gradient clipping, specified: the rules as data (`rules`), and a reference for any library's arrays.

Three words. The *leaves* of a tree of gradients are its arrays and None, in order. *Eager* is where Python may read
values and decide by them. A norm is *plain* if one float64 is good enough for it: where float64 exists, the Euclidean
one of arrays that are narrower and not in blocks.

This is how `clip_by_global_norm(grads, clip_norm, inplace=True)` clips a few small float32 arrays of NumPy (no more
than 16,384 elements each, `SMALL`, and 65,536 together, `CACHED`) whose norm is some times the threshold. Read in this
order, and no more than this:

1. `_functions.clip_by_global_norm`: its last seven lines. `_arguments` checks numbers and switches. `Gradients.of`
   takes the leaves out of their tree, checks them, and keeps those that are included as `gradients.arrays`.
   `gradients.array_library`, the `library` of all that follows, is what is known of NumPy and of these arrays: `xp` is
   NumPy (by way of array-api-compat), `scalars.xp` the same but faster with single numbers, `dtypes` maps dtypes to
   names, `total_dtype` is float32, `has_float64` and `eager` are True, and `primitives` holds functions of `_numpy`.
2. `_engine.clip_together`. `context` silences NumPy's warnings, and `rebuilt` makes the list or dict again. Of
   `_norm_and_total` only the end counts here, from `norm_of_all` on: `total` is the norm rounded to float32, to be
   returned, while the coefficient is made of the norm in float64. Both functions deal with Dask first (`chunked`), and
   with nothing to clip.
3. `_norm`: the fields of `Norm`, then `norm_of_all` and `_sum_of_squares`, each to its first return. `_is_plain` is
   True, `_plain_root` a square root, and `value` returns `high`. `sum_of_squares_eager` is `_numpy.sum_of_squares`,
   which returns at its first `if`: a `Sum` is a number and how far it may be off, 0 here.
   `_float64_sums.sum_of_squares_in_float64` gets all arrays from `_groups` as one group, of which `_sum_of_group`
   sums the squares: `widen` copies the elements to float64 into `buffer`, scratch memory, and `vecdot` is the dot
   product of each row with itself. Float64 holds the square of a float32 exactly, and no square is negative: adding
   them errs by far less than float32 rounds, and that does not count.
4. `_coefficient`: `Coefficient`, of one factor here, and `coefficient_of` up to the end of the branch for plain norms,
   whose comments are for compilers: here `quotient` is `clip_norm / (norm + eps)`, and not 1.
5. `_scaling`: `scaled` to its second return, and `_multiply_eager` to its first. `_indices_of_each` is every index,
   unless an array stands in the tree twice. `_dtype_for` says float32: a coefficient rounded to it leaves the elements
   within 1.5 ulp (one below `2**-126` might not). Then `_numpy.multiply`, to its first return; the third argument of
   `scale` is what it writes to.

The rest, to be looked up, is for other clips, norms and gradients, or for speed:

- `clip_by_norm` and `clip_by_value`: `_engine.clip_each_by_norm` (`_norm.norms_of_each`, `_scaling.scaled_each`) and
  `_engine.clip_each_by_value`. Clips as objects, like those of Paddle: `_policies`.
- Many new NumPy arrays of one clip are made several in one piece of memory, unless they are large (`_new_arrays`).
  Memory of intermediate results is used again (`_scratch`).
- Norms that are not plain, those of float64, of other powers, on a device without float64, or of arrays in blocks: the
  sums of powers are exact or nearly so (`_powers`, `_exact_sums`; squares of a narrower block are summed as for a plain
  norm), and a norm made of them is a pair of floats (`_double_words`) times a power of two.
- The squares of large arrays are summed in float32 for Euclidean norms (`_float32_sums`): of NumPy those of float32, of
  torch on the CPU narrower ones too, if there are 131,072 elements together. Large float32 arrays of NumPy are read in
  threads from 2 million elements together, and multiplied so from as many (`_threads`).
- Trees of arrays, and which of their leaves are included: `_trees`. Dtypes, and most of what is refused: `_library`.
  The formats of floats, and where the few numbers are computed that decide a clip: `_scalars`.
- Other libraries: `_torch` and `_jax`. What is not eager is *lazy*: traced, computed later, on an accelerator, to be
  differentiated, or any array of JAX. A library that follows the array API needs no code of its own on the CPU:
  `_primitives._standard` serves it. On an accelerator it needs a branch in `_primitives.of` that sets `eager`, so that
  nothing waits for the device, and one with faster ways of its own needs a branch that names them.
- Arrays in *blocks*, which are chunks of Dask's arrays, shards of torch's, and torch's tensors of each device where
  there are several: `_dask`, `_dtensors`, `_devices`.
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

#: Here, because the reference also runs where the distribution, and with it its metadata, is not installed.
__version__ = "0.1.0"
