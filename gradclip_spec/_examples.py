"""Clip the gradients of each example by their common norm, and add them."""

import math
from collections.abc import Sequence
from typing import Any, Literal, cast

from gradclip_spec._inputs import T, Tree, check_number, explain_names
from gradclip_spec.backends import choose_backend


@explain_names
def clip_per_example(grads: T, /, clip_norm: float, *, layers: Literal["equal", "by size"] | None = None) -> T:
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
    layers : {"equal", "by size"}, optional
        Clip each array of an example by its own norm, to a part of c. With "equal", each of K arrays is clipped to
        :math:`c / \sqrt{K}`. With "by size", an array with d of the example's D elements is clipped to
        :math:`c \sqrt{d / D}`. The norm of the whole example is then at most c, too.

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
        If `clip_norm` is negative or NaN, or `layers` is another value. If an array has no axis, or another number of
        examples than the first array.

    See Also
    --------
    clip_by_global_norm : Clip one example; its notes apply here too.

    Notes
    -----
    Each example is scaled in its own dtype, as by :func:`clip_by_global_norm`. The sum is taken in float64, or in
    float32 if there is no float64, and rounded once. No noise is added: this is the clip of DP-SGD, not all of it.

    Source: `optax.per_example_global_norm_clip(grads, l2_norm_clip)`; M. Abadi and others, "Deep Learning with
    Differential Privacy" (2016). For `layers`: `optax.per_example_layer_norm_clip(grads, global_l2_norm_clip)`; H. B.
    McMahan and others, "Learning Differentially Private Recurrent Language Models" (2017), arXiv 1710.06963.

    Examples
    --------
    >>> import numpy as np
    >>> clip_per_example([np.array([[3.0, 4.0], [0.5, 0.0]])], clip_norm=1.0)
    [array([1.1, 0.8])]
    >>> clip_per_example([np.array([[6.0, 8.0]]), np.array([[0.5]]), *2 * [np.zeros((1, 1))]], 4.0, layers="equal")[:2]
    [array([1.2, 1.6]), array([0.5])]
    """
    clip_norm = check_number("clip_norm", clip_norm)
    if layers not in (None, "equal", "by size"):
        message = f"layers is None, 'equal' or 'by size', and not {layers!r}"
        raise ValueError(message)
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
            scaled: list[Any] = []
            for part, threshold in _share_threshold(arrays, clip_norm, layers):
                norm = backend.measure_norm(part, 2.0)
                scaled += backend.scale(part, backend.compute_coefficient(norm, threshold, 0.0), False)
            examples.append(scaled)
        wide = xp.float64 if backend.has_float64 else xp.float32
        sums = []
        for place, x in enumerate(tree.included):
            stacked = xp.stack([example[place] for example in examples]) if examples else x
            total = xp.astype(xp.sum(xp.astype(stacked, wide), axis=0), x.dtype)
            # NumPy gives a scalar for an array without dimensions.
            sums.append(xp.asarray(total))
        return cast(T, tree.rebuild(sums))


def _share_threshold(arrays: Sequence[Any], clip_norm: float, layers: str | None) -> list[tuple[Sequence[Any], float]]:
    """Return the parts of an example that have a norm of their own, with their thresholds."""
    if layers is None:
        return [(arrays, clip_norm)]
    sizes = [math.prod(x.shape) if layers == "by size" else 1 for x in arrays]
    # An array without elements needs no part. A part of an infinite threshold would be NaN.
    return [
        ([x], clip_norm * math.sqrt(size / sum(sizes)) if size else clip_norm)
        for x, size in zip(arrays, sizes, strict=True)
    ]
