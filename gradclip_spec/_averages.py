"""Clip each array by an average over its elements: the root mean square, or the average norm.

Dividing the norm by a power of the number of elements has the effect of multiplying the threshold by it.
"""

from gradclip_spec._clip import clip_each
from gradclip_spec._inputs import NeedClip, T, check_number, explain_names


@explain_names
def clip_by_block_rms(grads: T, /, clip_norm: float, *, need_clip: NeedClip = None, inplace: bool = False) -> T:
    r"""Scale every array whose root mean square exceeds `clip_norm` down to that root mean square.

    .. math::

        R = \sqrt{\frac{1}{m} \sum_{j=1}^m X_j^2}, \qquad
        Y = \begin{cases} X & R \le c \\ \frac{c}{R} X & \text{otherwise} \end{cases}

    Parameters
    ----------
    grads : array, or tree of arrays and None
        The gradients, as for :func:`clip_by_value`. Each array is a block.
    clip_norm : float
        The threshold c, zero or more; infinity clips nothing.
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
        If `clip_norm` is negative or NaN. If `need_clip` has another structure or an unknown name. Nothing has been
        changed when an error is raised.

    See Also
    --------
    clip_by_norm : The same without the division by the number of elements.
    clip_by_global_norm : One norm over all arrays; its notes on memory, threads and backends apply here too.

    Notes
    -----
    The Euclidean norm is compared with c times the root of the number of elements, in float64. So this product must be
    within the range of float64. Its two roundings add up to 1 ulp to the error of float64 elements.

    Source: `optax.clip_by_block_rms(threshold)`; N. Shazeer and M. Stern, "Adafactor" (2018), for updates.

    Examples
    --------
    >>> import numpy as np
    >>> clip_by_block_rms([np.array([3.0, 4.0, 0.0, 0.0]), np.array([0.5])], clip_norm=1.25)
    [array([1.5, 2. , 0. , 0. ]), array([0.5])]
    """
    return clip_each(grads, check_number("clip_norm", clip_norm), 2.0, 0.0, 0.5, need_clip, inplace)


@explain_names
def clip_by_average_norm(grads: T, /, clip_norm: float, *, need_clip: NeedClip = None, inplace: bool = False) -> T:
    r"""Scale every array whose average norm exceeds `clip_norm` down to that average norm.

    The average norm of an array is its Euclidean norm divided by the number of its elements.

    .. math::

        A = \frac{1}{m} \sqrt{\sum_{j=1}^m X_j^2}, \qquad
        Y = \begin{cases} X & A \le c \\ \frac{c}{A} X & \text{otherwise} \end{cases}

    Parameters
    ----------
    grads : array, or tree of arrays and None
        The gradients, as for :func:`clip_by_value`.
    clip_norm : float
        The threshold c, zero or more; infinity clips nothing.
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
        If `clip_norm` is negative or NaN. If `need_clip` has another structure or an unknown name. Nothing has been
        changed when an error is raised.

    See Also
    --------
    clip_by_norm : The same without the division by the number of elements.
    clip_by_global_norm : One norm over all arrays; its notes on memory, threads and backends apply here too.

    Notes
    -----
    The Euclidean norm is compared with c times the number of elements, in float64. So this product must be within the
    range of float64. Its rounding adds up to 0.5 ulp to the error of float64 elements.

    Source: `tf.compat.v1.clip_by_average_norm(t, clip_norm)`.

    Examples
    --------
    >>> import numpy as np
    >>> clip_by_average_norm([np.array([3.0, 4.0, 0.0, 0.0]), np.array([0.5])], clip_norm=0.625)
    [array([1.5, 2. , 0. , 0. ]), array([0.5])]
    """
    return clip_each(grads, check_number("clip_norm", clip_norm), 2.0, 0.0, 1.0, need_clip, inplace)
