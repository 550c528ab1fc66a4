"""Compute the norm of gradients that several ranks share, where the caller owns the collectives."""

import numpy as np

from gradclip_spec._inputs import Array, ArrayTree, NeedClip, Tree, check_number, explain_names
from gradclip_spec.backends import choose_backend


@explain_names
def norm_contribution(grads: ArrayTree, /, *, norm_type: float = 2, need_clip: NeedClip = None) -> Array:
    r"""Return what the gradients of one rank contribute to the norm of all ranks, as four numbers.

    .. math:: N = \left( \sum_r s_r (d_r 2^{e_r})^p \right)^{1/p}, \qquad s_r = h_r + l_r

    Gather the contributions of all ranks with any collective, as the rows of one array, and pass them to
    :func:`clip_by_global_norm` or :func:`global_norm`. The norm is then that of the whole, whatever the order of the
    rows: it is within an ulp, and no sum overflows or underflows.

    Parameters
    ----------
    grads : array, or tree of arrays and None
        The gradients of this rank, as for :func:`clip_by_value`: its parts of what is sharded, and what it owns. What
        several ranks have a copy of must count on one of them only: exclude it with `need_clip` on the others.
    norm_type : float, optional
        The p of the norm, above zero; infinity is the largest magnitude.
    need_clip : tree of bool, callable, or set of str, optional
        Which arrays count, as for :func:`clip_by_value`.

    Returns
    -------
    array
        The numbers h, l, d and e: an array of shape (4,) of the gradients' library, in float64, or in float32 if the
        device has no float64. If there is no array at all, it is a NumPy float64: the rank contributes nothing.

    Raises
    ------
    TypeError
        If :func:`clip_by_value` would refuse the arguments for their types or names.
    ValueError
        If `norm_type` is not above zero, or `need_clip` has another structure or an unknown name.

    See Also
    --------
    clip_by_global_norm : Clip by the norm of all contributions.

    Notes
    -----
    Source: the same numbers are sent for DTensors and for the chunks of Dask arrays.

    Examples
    --------
    Two ranks, each with a part of the gradients; `np.stack` stands for the collective:

    >>> import numpy as np
    >>> from gradclip_spec import clip_by_global_norm
    >>> first, second = [np.array([3.0])], [np.array([4.0])]
    >>> rows = np.stack([norm_contribution(first), norm_contribution(second)])
    >>> clip_by_global_norm(first, 1.0, contributions=rows)
    ([array([0.6])], array(5.))
    """
    norm_type = check_number("norm_type", norm_type)
    tree = Tree(grads, need_clip)
    backend = choose_backend(tree)
    with backend.context():
        powers = backend.summarize(tree.included, norm_type)
        if isinstance(powers.high, float):
            numbers = np.array(powers, np.float64)
            return numbers if not tree.included else backend.xp.asarray(numbers)
        return backend.xp.stack([backend.xp.asarray(number) for number in powers])
