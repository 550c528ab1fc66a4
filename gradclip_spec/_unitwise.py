"""Clip each unit of a gradient relative to the norm of the unit's parameter: adaptive gradient clipping (AGC)."""

import operator
from typing import Any, cast

from gradclip_spec._inputs import ArrayTree, NeedClip, T, Tree, check_number, explain_names
from gradclip_spec.backends import choose_backend


@explain_names
def clip_unitwise(
    grads: T,
    /,
    params: ArrayTree,
    clip_factor: float,
    *,
    eps: float = 1e-3,
    axis: int = 0,
    need_clip: NeedClip = None,
    inplace: bool = False,
) -> T:
    r"""Scale every unit whose norm exceeds `clip_factor` times the norm of its parameter down to this limit.

    A unit is the part of an array that belongs to one output: a row :math:`G_i` of a weight matrix, or a filter. An
    array with at most one axis is one unit.

    .. math::

        \|W_i\|^\star = \max(\|W_i\|, \varepsilon), \qquad
        Y_i = \begin{cases} G_i & \|G_i\| \le \lambda \|W_i\|^\star \\
        \lambda \frac{\|W_i\|^\star}{\|G_i\|} G_i & \text{otherwise} \end{cases}

    Parameters
    ----------
    grads : array, or tree of arrays and None
        The gradients, as for :func:`clip_by_value`.
    params : array, or tree of arrays and None
        The parameters, in the structure of `grads`. Each has the shape of its gradient. Torch parameters are read
        without derivatives.
    clip_factor : float
        The threshold :math:`\lambda`, zero or more; infinity clips nothing.
    eps : float, optional
        The :math:`\varepsilon`, the least norm of a parameter's unit. It lets parameters that are zero be trained.
    axis : int, optional
        The axis that counts the units: 0 in torch, -1 in JAX and TensorFlow.
    need_clip : tree of bool, callable, or set of str, optional
        Which arrays are included, as for :func:`clip_by_value`. Brock and others exclude the last linear layer.
    inplace : bool, optional
        Whether to write the results into the gradients that are passed.

    Returns
    -------
    array, or tree of arrays and None
        A tree with the structure of `grads` (a list for a generator). Each array keeps its shape and dtype. An excluded
        array is the object that was passed. So is an array within the limits if its values can be read.

    Raises
    ------
    TypeError
        If :func:`clip_by_value` would refuse the arguments for their types or names, or `params` for their types.
    ValueError
        If `clip_factor` or `eps` is negative or NaN. If `params` or `need_clip` has another structure, or a parameter
        has another shape than its gradient. Nothing has been changed when an error is raised.

    See Also
    --------
    clip_by_norm : Clip each array by its own norm; the notes on `clip_by_global_norm` apply here too.

    Notes
    -----
    The quotient of both norms is compared with `clip_factor`. It is rounded to float64 (to float32 if there is no
    float64), which adds up to 1 ulp to the error of elements of that dtype. Each unit is a slice of its array, so a
    compiler takes longer for thousands of units.

    Source: A. Brock and others, "High-Performance Large-Scale Image Recognition Without Normalization" (2021);
    `optax.adaptive_grad_clip(clipping, eps)`; `timm.utils.adaptive_clip_grad(parameters, clip_factor, eps)`.

    Examples
    --------
    >>> import numpy as np
    >>> weight, grad = np.array([[1.0, 0.0], [0.0, 2.0]]), np.array([[3.0, 4.0], [0.0, 0.5]])
    >>> clip_unitwise([grad], [weight], clip_factor=0.5)
    [array([[0.3, 0.4],
           [0. , 0.5]])]
    """
    limit, least = check_number("clip_factor", clip_factor), check_number("eps", eps)
    tree = Tree(grads, need_clip)
    # This refuses arrays that cannot be written into. Parameters need not be writable.
    choose_backend(tree, inplace)
    arrays = tree.pick_once() if inplace else tree.included
    weights = _match(tree, Tree(params, None), arrays)
    backend = choose_backend(Tree([*arrays, *weights], None))
    results = []
    with backend.context():
        for x, weight in zip(arrays, weights, strict=True):
            units, others = _split(x, axis), _split(weight, axis)
            scaled = list(units)
            # A unit of a DTensor is a copy, unless the whole tensor is one unit.
            writes = inplace and (backend.slices_are_views or x.ndim < 2)
            for group in backend.group(units):
                alike = [units[place] for place in group]
                norms = (
                    backend.measure_norms(alike, 2.0),
                    backend.measure_norms([others[place] for place in group], 2.0),
                )
                coefficients = backend.compute_coefficient(backend.divide_norms(*norms, least), limit, 0.0)
                for place, result in zip(group, backend.scale_each(alike, coefficients, writes), strict=True):
                    scaled[place] = result
            if writes or all(map(operator.is_, scaled, units)):
                results.append(x)
            else:
                results.append(scaled[0] if x.ndim < 2 else backend.join_units(x, scaled, axis, inplace))
        return cast(T, tree.rebuild(tree.included if inplace else results))


def _match(tree: Tree, others: Tree, arrays: list[Any]) -> list[Any]:
    """Return the parameter of each gradient, without its derivatives."""
    places = {id(tree.leaves[index]): index for index in tree.indices}
    weights = []
    for x in arrays:
        index = places[id(x)]
        weight = others.leaves[index] if len(others.leaves) == len(tree.leaves) else None
        if weight is None or getattr(weight, "shape", None) != x.shape:
            message = f"`params` must have the structure of the gradients, and {tree.name(index)} the parameter's shape"
            raise ValueError(message)
        weights.append(weight.detach() if hasattr(weight, "detach") else weight)
    return weights


def _split(x: Any, axis: int) -> list[Any]:
    """Return the units of an array."""
    if x.ndim < 2:
        return [x]
    before = (slice(None),) * (axis % x.ndim)
    return [x[(*before, place, ...)] for place in range(x.shape[axis])]
