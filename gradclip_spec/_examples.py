"""Clip the gradients of each example by their common norm, and add them."""

from typing import cast

from gradclip_spec._inputs import Tree, check_number, explain_names
from gradclip_spec._typing import T
from gradclip_spec.backends import choose_backend

__all__ = ["clip_per_example"]


@explain_names
def clip_per_example(grads: T, /, clip_norm: float) -> T:
    r"""Scale the gradients of each example whose norm exceeds `clip_norm`, and return their sum over the examples.

    .. math::

        N_e = \sqrt{\sum_i \sum_{x \in X_{i,e}} x^2}, \qquad
        Y_i = \sum_e \min \left( 1, \frac{c}{N_e} \right) X_{i,e}

    Parameters
    ----------
    grads : array, or tree of arrays and None
        The gradients, as for :func:`clip_by_value`. The first axis of each array counts the examples.
    clip_norm : float
        The threshold c, zero or more; infinity clips nothing.

    Returns
    -------
    array, or tree of arrays and None
        A tree with the structure of `grads` (a list for a generator). Each sum has the dtype of its array, and the
        shape without the first axis.

    Raises
    ------
    TypeError
        If :func:`clip_by_value` would refuse the arguments for their types or names.
    ValueError
        If `clip_norm` is negative or NaN. If an array has no axis, or another number of examples than the first array.

    See Also
    --------
    clip_by_global_norm : Clip one example; its notes apply here too.

    Notes
    -----
    Each example is scaled in its own dtype, as by :func:`clip_by_global_norm`. The sum is taken in float64, or in
    float32 if there is no float64, and rounded once. No noise is added: this is the clip of DP-SGD, not all of it.

    Source: `optax.per_example_global_norm_clip(grads, l2_norm_clip)`; M. Abadi and others, "Deep Learning with
    Differential Privacy" (2016).

    Examples
    --------
    >>> import numpy as np
    >>> clip_per_example([np.array([[3.0, 4.0], [0.5, 0.0]])], clip_norm=1.0)
    [array([1.1, 0.8])]
    """
    clip_norm = check_number("clip_norm", clip_norm)
    tree = Tree(grads, None)
    backend = choose_backend(tree)
    counts = {x.shape[:1] for x in tree.included} or {(0,)}
    if len(counts) > 1 or counts == {()}:
        message = f"the first axis of each array counts the examples, and the counts are {sorted(counts)}"
        raise ValueError(message)
    ((count,),) = counts
    xp, examples = backend.xp, []
    with backend.context():
        for number in range(count):
            arrays = [x[number, ...] for x in tree.included]
            norm = backend.measure_norm(arrays, 2.0)
            examples.append(backend.scale(arrays, backend.compute_coefficient(norm, clip_norm, 0.0), False))
        wide = xp.float64 if backend.has_float64 else xp.float32
        sums = []
        for place, x in enumerate(tree.included):
            stacked = xp.stack([example[place] for example in examples]) if examples else x
            total = xp.astype(xp.sum(xp.astype(stacked, wide), axis=0), x.dtype)
            # NumPy gives a scalar for an array without dimensions.
            sums.append(xp.asarray(total))
        return cast(T, tree.rebuild(sums))
