"""The three operations, each as its formula: take the tree apart, norm, coefficient, scale, put it together.

What the arrays can do and how is up to their backend; `docs/reference-design.md` is a tour.
"""

import math
from typing import cast

from gradclip_spec._arithmetic import round_to
from gradclip_spec._inputs import Tree, check_bounds, check_number, explain_names
from gradclip_spec._typing import Array, ArrayTree, NeedClip, T
from gradclip_spec.backends import choose_backend

__all__ = ["clip_by_global_norm", "clip_by_norm", "clip_by_value", "global_norm"]


@explain_names
def clip_by_value(
    grads: T, /, max: float, min: float | None = None, *, need_clip: NeedClip = None, inplace: bool = False
) -> T:
    r"""Clip every element to the interval from `min` to `max`.

    .. math:: y = \min(\max(x, \mathit{min}), \mathit{max})

    Parameters
    ----------
    grads : array, or tree of arrays and None
        One array; lists, tuples, named tuples and dicts, nested or not (other containers need the package optree); or
        a generator or the `values()` of a dict, which are consumed once. None stands for a gradient that does not
        exist and stays None. Arrays are of one library, of any shape, and of dtype float16, bfloat16, float32 or
        float64.
    max : float
        The upper bound.
    min : float, optional
        The lower bound; `-max` if it is left out.
    need_clip : tree of bool, callable, or set of str, optional
        Which arrays are included: True or False for each array, in the structure of `grads`; or a function of the
        path of an array (its keys and indices with dots between, such as "encoder.0.bias") and the array that returns
        True or False; or a set of paths to exclude, each with all that stands below it. All, if left out.
    inplace : bool, optional
        Whether to write the results into the arrays that are passed.

    Returns
    -------
    array, or tree of arrays and None
        The structure of `grads` (a list for what is consumed), each array of the shape and dtype that it had. An array
        that is excluded is the very object that was passed; so is one that has nothing to clip, where the library
        lets values be looked at (a DTensor is a new one).

    Raises
    ------
    TypeError
        If an argument is of a wrong type or has a name of another library, arrays are of several libraries, of another
        dtype, masked, or torch's and sparse, or a `torch.nn.Parameter` (pass its `.grad`), or if `inplace` is asked of
        arrays that cannot be written into.
    ValueError
        If `min` is above `max`, either is NaN, `max` is negative with no `min`, or `need_clip` has another structure or
        an unknown name. Nothing has been changed when an error is raised.

    See Also
    --------
    clip_by_norm : Scale each array by its own norm.
    clip_by_global_norm : Scale all arrays by their common norm.

    Notes
    -----
    The bounds are rounded to the dtype of each array; rounding is monotonic, so that this is to clip exactly and round
    then. NaN stays NaN, and counts as something to clip; an infinity is clipped to a bound.

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
        bounds = {dtype: (round_to(name, lower), round_to(name, upper)) for dtype, name in backend.dtypes.items()}
        clipped = [backend.clip(x, *bounds[x.dtype], inplace) if 0 not in x.shape else x for x in tree.included]
        return cast(T, tree.rebuild(clipped))


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
    r"""Scale every array whose own norm exceeds `clip_norm` down to that norm.

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
        The structure of `grads` (a list for what is consumed), each array of the shape and dtype that it had. An array
        that is excluded is the very object that was passed; so is one within the threshold, where the library lets
        values be looked at.

    Raises
    ------
    TypeError
        If an argument is of a wrong type or has a name of another library, or arrays are refused as by
        :func:`clip_by_value`.
    ValueError
        If `clip_norm` or `eps` is negative or NaN, `norm_type` is not above zero, or `need_clip` has another structure
        or an unknown name. Nothing has been changed when an error is raised.

    See Also
    --------
    clip_by_global_norm : The same with one norm over all arrays; its notes hold here too.

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
    tree = Tree(grads, need_clip)
    backend = choose_backend(tree, inplace)
    arrays = tree.pick_once() if inplace else tree.included
    clipped = list(arrays)
    with backend.context():
        for indices in backend.group(arrays):
            alike = [arrays[index] for index in indices]
            norms = backend.norms(alike, norm_type)
            coefficients = backend.coefficient(norms, clip_norm, eps)
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
        With `eps` above zero the arrays are multiplied by :math:`\min(1, c / (N + \mathit{eps}))` instead: 1e-6
        gives torch's formula, 1e-8 MXNet's.
    need_clip : tree of bool, callable, or set of str, optional
        Which arrays are included, as for :func:`clip_by_value`. What is excluded is not counted in the norm either.
    error_if_nonfinite : bool, optional
        Whether to raise if `total_norm` is NaN or infinite.
    inplace : bool, optional
        Whether to write the results into the arrays that are passed.

    Returns
    -------
    clipped : array, or tree of arrays and None
        The structure of `grads` (a list for what is consumed), each array of the shape and dtype that it had. An array
        that is excluded is the very object that was passed; so is every array if the norm is within the threshold
        and the library lets values be looked at.
    total_norm : array
        The norm before clipping: an array without dimensions, of the library of the gradients, in the widest dtype
        among those that are included and at least float32. Over nothing it is 0 (a NumPy float32 if there is no
        array at all).

    Raises
    ------
    FloatingPointError
        With `error_if_nonfinite`, if `total_norm` is NaN or infinite.
    TypeError
        If an argument is of a wrong type or has a name of another library, arrays are refused as by
        :func:`clip_by_value`, or `error_if_nonfinite` is asked while the norm is being traced.
    ValueError
        If `clip_norm` or `eps` is negative or NaN, `norm_type` is not above zero, or `need_clip` has another structure
        or an unknown name. Nothing has been changed when an error is raised.

    See Also
    --------
    global_norm : The norm alone.

    Notes
    -----
    *Accuracy.* Of NumPy arrays and torch tensors on the CPU, norms with p = 1, 2 and infinity are within 0.51 ulp of
    the exact one (in float64 within 1 ulp), whatever the elements and their order; other p add what the library's power
    is off. Elements are within 0.51 ulp where the loops are compiled (the extra `fast`, arrays that lie in one piece),
    or if they are fewer than 16,384 and narrower than float64; else within 1.5. (Subnormal elements of float64 may be
    off by 0.75.) On all other libraries norms are within 1 ulp and elements within 1.5 where there is float64; without
    it, norms of p other than 1, 2 and infinity are some ulp farther off. For p from 1/30 on, no power overflows.
    Elements below `2**-1022` of the largest may count as zero, which a norm with a p below 1/12 can tell (without
    float64: below `2**-126`, and below 1/2).

    *Memory.* In place, an array that stands in the tree twice is scaled once; two arrays that share memory are each
    scaled. No result keeps memory alive that belongs to another.

    *Threads.* Some millions of elements in NumPy arrays and torch tensors are worked on in threads: as many as there
    are cores (of torch tensors half as many), or as `OMP_NUM_THREADS` or a container's quota says; only one where this
    is called from a thread other than the main one. No result depends on their number.

    *Not finite.* A NaN among the elements makes every element NaN. An infinity makes the norm infinite, hence finite
    elements 0 and infinite ones NaN. A zero norm scales nothing; a zero threshold makes every element 0. A norm that is
    finite but larger than any float32 is returned as infinite where no gradient is of float64; what is clipped is
    scaled by the norm itself.

    *Backend notes.* NumPy arrays, torch tensors on the CPU, DTensors of them, and arrays of libraries that are not
    named here and not lazy are looked at: within the threshold nothing is copied. Of all others (JAX, Dask, CuPy, torch
    on an accelerator, under `torch.compile`, under transformations, with `requires_grad` or beside a tensor of a
    subclass) no value decides what is done, so nothing is computed early and no device is waited for, and new arrays
    are returned. JAX computes norms in float64 also where 64 bits are switched off; on the CPU, XLA flushes subnormal
    numbers to zero. Derivatives are finite wherever the norm is, at zero gradients too; of float64 gradients, as far as
    the sum of their elements, and the threshold over the square of the norm, are within its range. Thresholds are plain
    numbers: under `jax.jit`, make them static; `torch.compile` compiles the Euclidean clips of what is narrower than
    float64 once for all of them, others for each.

    *Past one machine.* Dask arrays, torch's DTensors (FSDP2's gradients are some) and sharded JAX arrays are not
    gathered: each chunk or shard is read where it lies, and a few numbers of it travel. With DTensors the total norm
    is a plain tensor, the same on every process; all processes of a mesh must make the call, with the same tensors.
    Plain tensors beside DTensors, and DTensors with a `Partial` placement, raise a `TypeError`. Plain tensors may be on
    several devices: the total norm is on that of the first, and what comes of another travels to it. That a plain
    tensor is a part of something cannot be seen: of shards that are not DTensors (FSDP1's, ZeRO's) each process clips
    by the norm of its own.

    Source: Paddle's `ClipGradByGlobalNorm(clip_norm)`, torch's `clip_grad_norm_`, TensorFlow's `clip_by_global_norm`.

    Examples
    --------
    >>> import numpy as np
    >>> clipped, total_norm = clip_by_global_norm([np.array([3.0]), None, np.array([4.0])], clip_norm=1.0)
    >>> clipped, float(total_norm)
    ([array([0.6]), None, array([0.8])], 5.0)

    The second array is left out, of the norm too:

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
        norm = backend.norm(tree.included, norm_type)
        total_norm = backend.total(norm)
        if error_if_nonfinite:
            _refuse_nonfinite(total_norm, backend.raises_errors_of_users)
        coefficient = backend.coefficient(norm, clip_norm, eps)
        clipped = backend.scale(tree.pick_once() if inplace else tree.included, coefficient, inplace)
        return tree.rebuild(tree.included if inplace else clipped), total_norm


@explain_names
def global_norm(grads: ArrayTree, /, *, norm_type: float = 2, need_clip: NeedClip = None) -> Array:
    r"""Return the norm of all arrays together.

    .. math:: N = \left( \sum_i \sum_{x \in X_i} |x|^p \right)^{1/p}

    Parameters
    ----------
    grads : array, or tree of arrays and None
        The gradients, as for :func:`clip_by_value`.
    norm_type : float, optional
        The p of the norm, above zero; infinity is the largest magnitude.
    need_clip : tree of bool, callable, or set of str, optional
        Which arrays are included, as for :func:`clip_by_value`; what is excluded is not counted.

    Returns
    -------
    array
        The `total_norm` that :func:`clip_by_global_norm` returns: an array without dimensions, of the library of the
        gradients, in the widest dtype among those that are included and at least float32.

    Raises
    ------
    TypeError
        If an argument is of a wrong type or has a name of another library, or arrays are refused as by
        :func:`clip_by_value`.
    ValueError
        If `norm_type` is not above zero, or `need_clip` has another structure or an unknown name.

    See Also
    --------
    clip_by_global_norm : Clip by this norm; its notes hold here too.

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
        return backend.total(backend.norm(tree.included, norm_type))


def _refuse_nonfinite(total: Array, is_users: bool) -> None:
    """Raise a FloatingPointError if a total norm is not finite, a TypeError if its value cannot be looked at."""
    try:
        # Of a tensor that requires grad, torch warns if it is made a number.
        value = float(total.detach() if hasattr(total, "detach") else total)
    except Exception as error:
        if is_users:
            # Computed here, by the user's own functions and on a cluster: what is raised is theirs.
            raise
        message = (
            "`error_if_nonfinite=True` needs the value of the norm, which is not known here (it is traced, or its "
            "device holds no values); leave it False and check the norm that is returned"
        )
        raise TypeError(message) from error
    if not math.isfinite(value):
        message = (
            f"the total norm of the gradients is {value}, which `error_if_nonfinite=True` refuses; look for the "
            f"gradient that holds it or is so large, or leave `error_if_nonfinite` False (nothing has been changed)"
        )
        raise FloatingPointError(message)
