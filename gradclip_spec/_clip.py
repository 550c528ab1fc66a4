"""Clip trees of gradients: take the tree apart, compute norm and coefficient, scale, and rebuild the tree.

The backend of the arrays does the computations; `docs/explanation/reference-design.md` explains the design.
"""

import math
from typing import Any, cast

from gradclip_spec._formats import round_to
from gradclip_spec._inputs import (
    Array,
    ArrayTree,
    NeedClip,
    T,
    Tree,
    check_bounds,
    check_contributions,
    check_number,
    explain_names,
)
from gradclip_spec.backends import choose_backend
from gradclip_spec.backends.base import group_by


@explain_names
def clip_by_value(
    grads: T, /, max: float, min: float | None = None, *, need_clip: NeedClip = None, inplace: bool = False
) -> T:
    r"""Clip every element to the interval from `min` to `max`.

    .. math:: y = \min(\max(x, \mathit{min}), \mathit{max})

    Parameters
    ----------
    grads : array, or tree of arrays and None
        One array, or a list, tuple, named tuple or dict of arrays, nested or not. Other containers need the package
        optree. A generator and the `values()` of a dict are read once. None stands for a gradient that does not exist,
        and stays None. All arrays are of one library. They have any shape, and the dtype float16, bfloat16, float32 or
        float64.
    max : float
        The upper bound.
    min : float, optional
        The lower bound; by default `-max`.
    need_clip : tree of bool, callable, or set of str, optional
        Which arrays are included; by default, all. A tree has the structure of `grads` and holds True or False for each
        array. A function gets the path of an array and the array itself, and returns True or False. A path joins keys
        and indices by dots, as in "encoder.0.bias". A set holds paths to exclude, each with everything below it.
    inplace : bool, optional
        Whether to write the results into the arrays that are passed.

    Returns
    -------
    array, or tree of arrays and None
        A tree with the structure of `grads` (a list for a generator). Each array keeps its shape and dtype. An excluded
        array is the object that was passed. So is an array without anything to clip if its values can be read, but a
        DTensor is always new.

    Raises
    ------
    TypeError
        If an argument has a wrong type, or a keyword is unknown, such as another library's name for an argument. If
        arrays come from several libraries. If an array has another dtype, is masked, or is a sparse torch tensor. If an
        array is a `torch.nn.Parameter` (pass its `.grad`). If `inplace` is true and an array cannot be written into.
    ValueError
        If `min` is above `max`, or one of them is NaN. If `max` is negative and `min` is not given. If `need_clip` has
        another structure or an unknown name. Nothing has been changed when an error is raised.

    See Also
    --------
    clip_by_norm : Scale each array by its own norm.
    clip_by_global_norm : Scale all arrays by their common norm.

    Notes
    -----
    The bounds are rounded to the dtype of each array. Rounding is monotonic, so this gives the same result as exact
    clipping followed by rounding. NaN stays NaN, and counts as something to clip; an infinity is clipped to a bound.

    Source: Paddle's `ClipGradByValue(max, min=None)`, torch's `clip_grad_value_(parameters, clip_value)`.

    Examples
    --------
    >>> import numpy as np
    >>> clip_by_value([np.array([-3.0, 0.5, 2.0]), None], max=1.0)
    [array([-1. ,  0.5,  1. ]), None]
    >>> clip_by_value({"bias": np.array([-3.0, 0.5])}, max=2.0, min=0.0)
    {'bias': array([0. , 0.5])}
    """
    lower, upper = check_bounds(max, min)
    tree = Tree(grads, need_clip)
    backend = choose_backend(tree, inplace)
    with backend.context():
        bounds = {name: (round_to(name, lower), round_to(name, upper)) for name in backend.dtypes.values()}
        return cast(T, tree.rebuild(backend.clip_all(tree.included, bounds, inplace)))


@explain_names
def clip_by_norm(
    grads: T,
    /,
    clip_norm: float,
    *,
    norm_type: float = 2,
    eps: float = 0.0,
    need_clip: NeedClip = None,
    inplace: bool = False,
) -> T:
    r"""Scale every array whose own norm exceeds `clip_norm` down to the norm `clip_norm`.

    .. math:: Y = \begin{cases} X & \|X\|_p \le c \\ \frac{c}{\|X\|_p} X & \text{otherwise} \end{cases}

    Parameters
    ----------
    grads : array, or tree of arrays and None
        The gradients, as for :func:`clip_by_value`.
    clip_norm : float
        The threshold c, zero or more; infinity clips nothing.
    norm_type : float, optional
        The p of the norm :math:`(\sum |x|^p)^{1/p}`, above zero; infinity is the largest magnitude.
    eps : float, optional
        With `eps` above zero the arrays are multiplied by :math:`\min(1, c / (\|X\|_p + \mathit{eps}))` instead.
    need_clip : tree of bool, callable, or set of str, optional
        Which arrays are included, as for :func:`clip_by_value`.
    inplace : bool, optional
        Whether to write the results into the arrays that are passed.

    Returns
    -------
    array, or tree of arrays and None
        A tree with the structure of `grads` (a list for a generator). Each array keeps its shape and dtype. An excluded
        array is the object that was passed. So is an array within the threshold if its values can be read.

    Raises
    ------
    TypeError
        If :func:`clip_by_value` would refuse the arguments for their types or names.
    ValueError
        If `clip_norm` or `eps` is negative or NaN. If `norm_type` is not above zero. If `need_clip` has another
        structure or an unknown name. Nothing has been changed when an error is raised.

    See Also
    --------
    clip_by_global_norm : The same with one norm over all arrays; its notes apply here too.

    Notes
    -----
    Source: Paddle's `ClipGradByNorm(clip_norm)`, fluid's `GradientClipByNorm(clip_norm)`, TensorFlow's `clip_by_norm`.

    Examples
    --------
    >>> import numpy as np
    >>> clip_by_norm([np.array([3.0, 4.0]), np.array([0.3, 0.4])], clip_norm=1.0)
    [array([0.6, 0.8]), array([0.3, 0.4])]
    """
    clip_norm = check_number("clip_norm", clip_norm)
    norm_type = check_number("norm_type", norm_type)
    eps = check_number("eps", eps)
    return clip_each(grads, clip_norm, norm_type, eps, 0.0, need_clip, inplace)


def clip_each(grads: T, limit: float, p: float, eps: float, power: float, need_clip: NeedClip, inplace: bool) -> T:
    """Scale every array whose p-norm exceeds `limit * size**power`.

    Parameters
    ----------
    grads : array, or tree of arrays and None
        The gradients, as for :func:`clip_by_value`.
    limit, p, eps, power : float
        The threshold, the order of the norm, the number that is added to the norm, and the power of an array's size in
        its threshold. All four have been checked.
    need_clip : tree of bool, callable, or set of str, optional
        Which arrays to clip, as for :func:`clip_by_value`.
    inplace : bool
        Whether to write into the arrays.

    Returns
    -------
    array, or tree
        The clipped gradients, in the form of `grads`.
    """
    tree = Tree(grads, need_clip)
    backend = choose_backend(tree, inplace)
    arrays = tree.pick_once() if inplace else tree.included
    clipped = list(arrays)
    with backend.context():
        for group in backend.group(arrays):
            # Without a power, all arrays have one threshold, and sizes need not be read.
            sizes = [max(math.prod(arrays[index].shape), 1) for index in group] if power else [1]
            for places in group_by(group, sizes) if power else [range(len(group))]:
                indices = [group[place] for place in places]
                alike = [arrays[index] for index in indices]
                norms = backend.measure_norms(alike, p)
                coefficients = backend.compute_coefficient(norms, limit * sizes[places[0]] ** power, eps)
                for index, result in zip(indices, backend.scale_each(alike, coefficients, inplace), strict=True):
                    clipped[index] = result
        return cast(T, tree.rebuild(tree.included if inplace else clipped))


@explain_names
def clip_by_global_norm(
    grads: T,
    /,
    clip_norm: float,
    *,
    norm_type: float = 2,
    eps: float = 0.0,
    need_clip: NeedClip = None,
    error_if_nonfinite: bool = False,
    inplace: bool = False,
    contributions: Array = None,
) -> tuple[T, Array]:
    r"""Scale all arrays by one coefficient if their common norm exceeds `clip_norm`.

    .. math::

        N = \left( \sum_i \sum_{x \in X_i} |x|^p \right)^{1/p}, \qquad
        Y_i = \begin{cases} X_i & N \le c \\ \frac{c}{N} X_i & \text{otherwise} \end{cases}

    Parameters
    ----------
    grads : array, or tree of arrays and None
        The gradients, as for :func:`clip_by_value`.
    clip_norm : float
        The threshold c, zero or more; infinity clips nothing.
    norm_type : float, optional
        The p of the norm, above zero; infinity is the largest magnitude.
    eps : float, optional
        With `eps` above zero the arrays are multiplied by :math:`\min(1, c / (N + \mathit{eps}))` instead. 1e-6 gives
        torch's formula, and 1e-8 gives MXNet's.
    need_clip : tree of bool, callable, or set of str, optional
        Which arrays are included, as for :func:`clip_by_value`. Excluded arrays do not count in the norm either.
    error_if_nonfinite : bool, optional
        Whether to raise if `total_norm` is NaN or infinite.
    inplace : bool, optional
        Whether to write the results into the arrays that are passed.
    contributions : array, optional
        The contributions of all ranks that share the gradients (see :func:`norm_contribution`), one row for each. The
        norm is then that of all ranks. It does not matter which rows are those of this rank.

    Returns
    -------
    clipped : array, or tree of arrays and None
        A tree with the structure of `grads` (a list for a generator). Each array keeps its shape and dtype. An excluded
        array is the object that was passed. So is every array if the norm is within the threshold and the values can be
        read.
    total_norm : array
        The norm before clipping: an array of the gradients' library, without dimensions. Its dtype is the widest one
        among the included gradients, and at least float32. The norm is 0 if nothing is included. If there is no array
        at all, it is a NumPy float32.

    Raises
    ------
    FloatingPointError
        With `error_if_nonfinite`, if `total_norm` is NaN or infinite.
    TypeError
        If :func:`clip_by_value` would refuse the arguments for their types or names, or if `error_if_nonfinite` is true
        while the norm is being traced.
    ValueError
        If `clip_norm` or `eps` is negative or NaN. If `norm_type` is not above zero. If `need_clip` has another
        structure or an unknown name. If `contributions` has another shape than one row of 4 numbers for each rank, or
        another dtype than :func:`norm_contribution` returns. Nothing has been changed when an error is raised.

    See Also
    --------
    global_norm : The norm alone.

    Notes
    -----
    *Accuracy.* For NumPy arrays and torch tensors on the CPU, norms with p = 1, 2 and infinity are within 0.51 ulp of
    the exact norm (within 1 ulp in float64), whatever the elements and their order. For other p, the error of the
    library's power is added. Elements are within 0.51 ulp in two cases: the loops are compiled (this needs the extra
    `fast` and contiguous arrays), or there are fewer than 16,384 elements, all narrower than float64. Otherwise they
    are within 1.5 ulp. (Elements of float64 below `2**-1015` may have an error of 1 ulp.) For all other libraries,
    norms are within 1 ulp and elements within 1.5 ulp if there is float64 (elements of float64 within 3.5 ulp for p
    other than 1, 2 and infinity). Without float64, norms with such p have an error of a few more ulp. No power
    overflows if p is at least 1/30. An element below `2**-1022` times the largest may count as zero, which matters only
    for p below 1/12. Without float64, this holds for an element below `2**-126` times the largest, and matters for p
    below 1/2.

    *Memory.* In place, an array that occurs twice in the tree is scaled once; two arrays that share memory are both
    scaled. No result keeps the memory of another result alive.

    *Threads.* Several threads share the work on millions of elements in NumPy arrays and torch tensors. The number of
    threads is the number of cores. `OMP_NUM_THREADS` or a container's quota can lower it. For torch tensors, torch's
    own threads do the work, at most `torch.get_num_threads()`; where torch does not use GNU's OpenMP, half as many new
    threads do it. A call from a thread other than the main one uses one thread. No result depends on the number of
    threads.

    *Not finite.* A NaN among the elements makes every element NaN. An infinity makes the norm infinite; then finite
    elements become 0 and infinite ones NaN. A zero norm scales nothing; a zero threshold makes every element 0. If no
    gradient has the dtype float64, a finite norm beyond the range of float32 is returned as infinity, but the gradients
    are scaled by the finite norm.

    *Backend notes.* The clip reads the values of NumPy arrays, of torch tensors on the CPU, of DTensors with shards on
    the CPU, and of arrays of other libraries that are not lazy. Within the threshold it copies nothing. It reads no
    values of JAX, Dask and CuPy arrays, or of torch tensors on an accelerator. The same holds for torch tensors under
    `torch.compile` or a transformation, with `requires_grad`, or together with a tensor of a subclass. For all these,
    nothing is computed early, no device is waited for, and new arrays are returned. JAX computes norms in float64 even
    if 64 bits are switched off; on the CPU, XLA flushes subnormal numbers to zero. Derivatives are finite if the norm
    is finite, even at zero gradients. For float64 gradients, two more numbers must be within the range: the sum of the
    elements, and the threshold divided by the square of the norm. Thresholds are plain numbers: under `jax.jit`, make
    them static. `torch.compile` compiles Euclidean clips of dtypes narrower than float64 once for all thresholds, and
    other clips once for each threshold.

    *Several machines.* Dask arrays, torch's DTensors (such as FSDP2's gradients) and sharded JAX arrays are not
    gathered: each chunk or shard is read in place, and only a few numbers are sent. With DTensors, the total norm is a
    plain tensor that is the same on every process. All processes of a mesh must make the call, with the same tensors.
    Plain tensors beside DTensors count once, as the same on every process. A DTensor with a `Partial` placement is
    added up for its norm, and each of its addends is scaled; a clip by value refuses it. Plain tensors may be on
    several devices; the total norm is on the device of the first tensor. A plain tensor does not show that it is a
    shard. So with shards that are not DTensors (FSDP1's, ZeRO's, experts), gather the contributions of all ranks.

    Source: Paddle's `ClipGradByGlobalNorm(clip_norm)`, torch's `clip_grad_norm_`, TensorFlow's `clip_by_global_norm`.

    Examples
    --------
    >>> import numpy as np
    >>> clipped, total_norm = clip_by_global_norm([np.array([3.0]), None, np.array([4.0])], clip_norm=1.0)
    >>> clipped, float(total_norm)
    ([array([0.6]), None, array([0.8])], 5.0)

    The second array is excluded, also from the norm:

    >>> clip_by_global_norm([np.array([3.0]), np.array([4.0])], 1.0, need_clip=[True, False])[0]
    [array([1.]), array([4.])]
    >>> layers = {"0.weight": np.array([3.0]), "0.bias": np.array([4.0])}
    >>> clip_by_global_norm(layers, 1.0, need_clip=lambda path, array: not path.endswith("bias"))[0]
    {'0.weight': array([1.]), '0.bias': array([4.])}
    >>> clip_by_global_norm(layers, 1.0, need_clip={"0.bias"})[0]
    {'0.weight': array([1.]), '0.bias': array([4.])}
    """
    clip_norm = check_number("clip_norm", clip_norm)
    norm_type = check_number("norm_type", norm_type)
    eps = check_number("eps", eps)
    tree = Tree(grads, need_clip)
    backend = choose_backend(tree, inplace)
    with backend.context():
        norm = _measure(backend, tree, norm_type, contributions)
        total_norm = backend.round_norm(norm)
        if error_if_nonfinite:
            _refuse_nonfinite(total_norm, backend.raises_errors_of_users)
        coefficient = backend.compute_coefficient(norm, clip_norm, eps)
        clipped = backend.scale(tree.pick_once() if inplace else tree.included, coefficient, inplace)
        return tree.rebuild(tree.included if inplace else clipped), total_norm


@explain_names
def global_norm(
    grads: ArrayTree, /, *, norm_type: float = 2, need_clip: NeedClip = None, contributions: Array = None
) -> Array:
    r"""Return the norm of all arrays together.

    .. math:: N = \left( \sum_i \sum_{x \in X_i} |x|^p \right)^{1/p}

    Parameters
    ----------
    grads : array, or tree of arrays and None
        The gradients, as for :func:`clip_by_value`.
    norm_type : float, optional
        The p of the norm, above zero; infinity is the largest magnitude.
    need_clip : tree of bool, callable, or set of str, optional
        Which arrays are included, as for :func:`clip_by_value`; excluded arrays do not count.
    contributions : array, optional
        The contributions of all ranks that share the gradients, as for :func:`clip_by_global_norm`.

    Returns
    -------
    array
        The `total_norm` that :func:`clip_by_global_norm` returns: an array of the gradients' library, without
        dimensions. Its dtype is the widest one among the included gradients, and at least float32.

    Raises
    ------
    TypeError
        If :func:`clip_by_value` would refuse the arguments for their types or names.
    ValueError
        If `norm_type` is not above zero, or `need_clip` has another structure or an unknown name. If `contributions`
        has another shape than one row of 4 numbers for each rank, or another dtype than :func:`norm_contribution`
        returns.

    See Also
    --------
    clip_by_global_norm : Clip by this norm; its notes apply here too.

    Notes
    -----
    Source: TensorFlow's `global_norm`, torch's `get_total_norm`.

    Examples
    --------
    >>> import numpy as np
    >>> global_norm([np.array([3.0]), np.array([4.0])])
    array(5.)
    >>> global_norm([np.array([1e200]), np.array([1e200])], norm_type=1)
    array(2.e+200)
    """
    norm_type = check_number("norm_type", norm_type)
    tree = Tree(grads, need_clip)
    backend = choose_backend(tree)
    with backend.context():
        return backend.round_norm(_measure(backend, tree, norm_type, contributions))


def _measure(backend: Any, tree: Tree, norm_type: float, contributions: Array) -> Any:
    """Return the norm of the included arrays, or of all ranks if their contributions are given."""
    if contributions is None:
        return backend.measure_norm(tree.included, norm_type)
    check_contributions(contributions, "float64" if backend.has_float64 else "float32")
    return backend.join(contributions, norm_type)


def _refuse_nonfinite(total: Array, runs_users_code: bool) -> None:
    """Raise a FloatingPointError if a total norm is not finite, and a TypeError if its value cannot be read."""
    try:
        # torch warns if a tensor that requires grad is converted to a number.
        value = float(total.detach() if hasattr(total, "detach") else total)
    except Exception as error:
        if runs_users_code:
            # Reading the norm ran the user's own functions, perhaps on a cluster. Their errors propagate.
            raise
        message = "`error_if_nonfinite=True` needs the norm's value, which is not known here; check the returned norm"
        raise TypeError(message) from error
    if not math.isfinite(value):
        message = f"the total norm is {value}, which `error_if_nonfinite=True` refuses (nothing has been changed)"
        raise FloatingPointError(message)
