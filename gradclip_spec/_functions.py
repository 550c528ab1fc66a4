"""The public functions. What they share is in `_engine`."""

from typing import Any

from gradclip_spec import _arguments, _engine

__all__ = ["clip_by_global_norm", "clip_by_norm", "clip_by_value", "global_norm"]

Array = Any


def clip_by_value(
    grads: Any, /, max: float, min: float | None = None, *, need_clip: Any = None, inplace: bool = False
) -> Any:
    r"""Clip every element to the interval from `min` to `max`.

    .. math:: y = \min(\max(x, \mathit{min}), \mathit{max})

    Parameters
    ----------
    grads : array, or tree of arrays and None
        One array; a list, tuple or dict; any nesting of them (needs the package optree); or a generator or the
        `values()` of a dict, which are consumed once. None stands for a gradient that does not exist and stays None.
        Arrays are of one library, of any shape, and of dtype float16, bfloat16, float32 or float64.
    max : float
        The upper bound.
    min : float, optional
        The lower bound; `-max` if it is left out.
    need_clip : tree of bool, or callable, optional
        Which arrays are included: True or False for each array, in the structure of `grads`; or a function of the
        path of a leaf (a tuple of keys and indices) and its array that returns True or False. All, if left out.
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
        If an argument is of a wrong type, arrays are of several libraries, of another dtype, masked, or torch's and
        sparse, or `inplace` is asked of arrays that cannot be written into.
    ValueError
        If `min` is above `max`, either is NaN, `max` is negative with no `min`, or `need_clip` has another structure.
        Nothing has been changed when an error is raised.

    Notes
    -----
    The bounds are rounded to the dtype of each array. NaN stays NaN, and counts as something to clip; an infinity is
    clipped to a bound.

    Source: Paddle's `ClipGradByValue(max, min=None)`, torch's `clip_grad_value_(parameters, clip_value)`.

    Examples
    --------
    >>> import numpy as np
    >>> clip_by_value([np.array([-3.0, 0.5, 2.0]), None], max=1.0)
    [array([-1. ,  0.5,  1. ]), None]
    >>> clip_by_value({"bias": np.array([-3.0, 0.5])}, max=2.0, min=0.0)
    {'bias': array([0. , 0.5])}
    """
    lower, upper = _arguments.check_bounds(max, min)
    inplace = _arguments.check_switch("inplace", inplace)
    gradients = _engine.Gradients.of(grads, need_clip, inplace)
    return _engine.clip_each_by_value(gradients, lower, upper)


def clip_by_norm(
    grads: Any,
    /,
    clip_norm: float,
    *,
    norm_type: float = 2,
    eps: float = 0.0,
    need_clip: Any = None,
    inplace: bool = False,
) -> Any:
    r"""Scale every array whose own norm exceeds `clip_norm` down to that norm.

    .. math:: Y = \begin{cases} X & \|X\|_p \le c \\ \frac{c}{\|X\|_p} X & \text{otherwise} \end{cases}

    Parameters
    ----------
    grads, need_clip, inplace
        As for :func:`clip_by_value`.
    clip_norm : float
        The threshold c, zero or more; infinity clips nothing.
    norm_type : float, optional
        The p of the norm :math:`(\sum |x|^p)^{1/p}`, above zero; infinity is the largest magnitude.
    eps : float, optional
        With `eps` above zero the arrays are multiplied by :math:`\min(1, c / (\|X\|_p + \mathit{eps}))` instead.

    Returns
    -------
    array, or tree of arrays and None
        The structure of `grads` (a list for what is consumed), each array of the shape and dtype that it had. An array
        that is excluded is the very object that was passed; so is one within the threshold, where the library lets
        values be looked at.

    Raises
    ------
    TypeError
        If an argument is of a wrong type, arrays are of several libraries, of another dtype, masked, or torch's and
        sparse, or `inplace` is asked of arrays that cannot be written into.
    ValueError
        If `clip_norm` or `eps` is negative or NaN, `norm_type` is not above zero, or `need_clip` has another
        structure. Nothing has been changed when an error is raised.

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
    clip_norm = _arguments.check_threshold("clip_norm", clip_norm)
    norm_type = _arguments.check_norm_type(norm_type)
    eps = _arguments.check_eps(eps)
    inplace = _arguments.check_switch("inplace", inplace)
    gradients = _engine.Gradients.of(grads, need_clip, inplace)
    return _engine.clip_each_by_norm(gradients, clip_norm, norm_type, eps)


def clip_by_global_norm(
    grads: Any,
    /,
    clip_norm: float,
    *,
    norm_type: float = 2,
    eps: float = 0.0,
    need_clip: Any = None,
    error_if_nonfinite: bool = False,
    inplace: bool = False,
) -> tuple[Any, Array]:
    r"""Scale all arrays by one coefficient if their common norm exceeds `clip_norm`.

    .. math::

        N = \left( \sum_i \sum_{x \in X_i} |x|^p \right)^{1/p}, \qquad
        Y_i = \begin{cases} X_i & N \le c \\ \frac{c}{N} X_i & \text{otherwise} \end{cases}

    Parameters
    ----------
    grads, need_clip, inplace
        As for :func:`clip_by_value`. What is excluded is not counted in the norm either.
    clip_norm : float
        The threshold c, zero or more; infinity clips nothing.
    norm_type : float, optional
        The p of the norm, above zero; infinity is the largest magnitude.
    eps : float, optional
        With `eps` above zero the arrays are multiplied by :math:`\min(1, c / (N + \mathit{eps}))` instead: 1e-6
        gives torch's formula, 1e-8 MXNet's.
    error_if_nonfinite : bool, optional
        Whether to raise if `total_norm` is NaN or infinite.

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
        If an argument is of a wrong type, arrays are of several libraries, of another dtype, masked, or torch's and
        sparse, `inplace` is asked of arrays that cannot be written into, or `error_if_nonfinite` is asked while the
        norm is being traced.
    ValueError
        If `clip_norm` or `eps` is negative or NaN, `norm_type` is not above zero, or `need_clip` has another
        structure. Nothing has been changed when an error is raised.

    See Also
    --------
    global_norm : The norm alone.

    Notes
    -----
    *Accuracy.* The norm is within 1 ulp of the exact one and the elements are within 1.5 ulp (of float64, within 2 and
    3 ulp). With a p below 1, or other than 1, 2 and infinity on a device without float64, they are some ulp farther
    off, as far as the library's powers are. For p from 1/30 on, no power overflows. Elements below `2**-1022` of the
    largest may count as zero, which a norm with a p below 1/12 can tell (without float64: below `2**-126`, and below
    1/2). For the Euclidean norm, arrays on the CPU of more than 16,384 float32 elements each (on torch float16 and
    bfloat16 too) and 131,072 together are summed in float32 in short rows, and the bias of the errors is estimated from
    some rows and taken off; where the estimate is poor, everything is summed in float64. Data made to defeat the
    estimate, whose other rows round otherwise than those looked at, can exceed 1 ulp.

    *Memory.* New NumPy arrays may share buffers of up to 64 MiB: keeping one of them keeps the buffer. Some memory for
    intermediate results, some 16 MiB at the most, is kept for the next call. In place, an array that stands in the tree
    twice is scaled once; two arrays that share memory are each scaled.

    *Threads.* Some millions of elements in NumPy arrays are worked on in threads: as many as there are cores, or as
    `OMP_NUM_THREADS` says; only one where this is called from a thread other than the main one. No result depends on
    their number.

    *Not finite.* A NaN among the elements makes every element NaN. An infinity makes the norm infinite, hence finite
    elements 0 and infinite ones NaN. A zero norm scales nothing; a zero threshold makes every element 0. A norm that is
    finite but larger than any float32 is returned as infinite where no gradient is of float64; what is clipped is
    scaled by the norm itself.

    *Backend notes.* NumPy arrays, torch tensors on the CPU, DTensors of them, and arrays of libraries that are not
    named here and not lazy are looked at: within the threshold nothing is copied. Of all others (JAX, Dask, CuPy, torch
    on an accelerator, under `torch.compile`, under transformations, with `requires_grad` or beside a tensor of a
    subclass) no value decides what is done, so nothing is computed early and no device is waited for, and new arrays
    are returned. JAX computes norms in
    float64 also where 64 bits are switched off; on the CPU, XLA flushes subnormal numbers to zero. Derivatives are
    finite wherever the norm is, at zero gradients too; of float64 gradients, as far as the sum of their elements, and
    the threshold over the square of the norm, are within its range. Thresholds are plain numbers: under `jax.jit`, make
    them static; `torch.compile` compiles the Euclidean clips of what is narrower than float64 once for all of them,
    others for each.

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
    >>> by_name = {"weight": np.array([3.0]), "bias": np.array([4.0])}
    >>> clip_by_global_norm(by_name, 1.0, need_clip=lambda path, array: path[-1] != "bias")[0]
    {'weight': array([1.]), 'bias': array([4.])}
    """
    clip_norm = _arguments.check_threshold("clip_norm", clip_norm)
    norm_type = _arguments.check_norm_type(norm_type)
    eps = _arguments.check_eps(eps)
    error_if_nonfinite = _arguments.check_switch("error_if_nonfinite", error_if_nonfinite)
    inplace = _arguments.check_switch("inplace", inplace)
    gradients = _engine.Gradients.of(grads, need_clip, inplace)
    return _engine.clip_together(gradients, clip_norm, norm_type, eps, error_if_nonfinite)


def global_norm(grads: Any, /, *, norm_type: float = 2, need_clip: Any = None) -> Array:
    r"""The norm of all arrays together, :math:`N = (\sum_i \sum_{x \in X_i} |x|^p)^{1/p}`.

    Parameters
    ----------
    grads, need_clip
        As for :func:`clip_by_value`; what is excluded is not counted.
    norm_type : float, optional
        The p of the norm, above zero; infinity is the largest magnitude.

    Returns
    -------
    array
        The `total_norm` that :func:`clip_by_global_norm` returns: an array without dimensions, of the library of the
        gradients, in the widest dtype among those that are included and at least float32.

    Raises
    ------
    TypeError
        If an argument is of a wrong type, or arrays are of several libraries, of another dtype, masked, or torch's and
        sparse.
    ValueError
        If `norm_type` is not above zero, or `need_clip` has another structure.

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
    norm_type = _arguments.check_norm_type(norm_type)
    return _engine.total_norm(_engine.Gradients.of(grads, need_clip), norm_type)
