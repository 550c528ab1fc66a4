"""Offer the reference's clips as Optax transformations for `optax.chain`.

>>> import gradclip_spec.optax  # doctest: +SKIP
>>> optimizer = optax.chain(gradclip_spec.optax.clip_by_global_norm(1.0), optax.sgd(0.1))  # doctest: +SKIP
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gradclip_spec import _clip
from gradclip_spec._inputs import check_bounds, check_number

if TYPE_CHECKING:
    from optax import GradientTransformation
else:
    GradientTransformation = Any

__all__ = ["clip", "clip_by_global_norm", "clip_by_norm"]


def clip(max_delta: float) -> GradientTransformation:
    r"""Return a transformation that clips every element, as `optax.clip` does.

    .. math:: u \leftarrow \min(\max(u, -\mathit{max\_delta}), \mathit{max\_delta})

    Parameters
    ----------
    max_delta : float
        The largest magnitude, zero or more; a plain number.

    Returns
    -------
    optax.GradientTransformation
        A transformation without state, of updates of any shape and dtype that :func:`gradclip_spec.clip_by_value`
        takes.

    Raises
    ------
    TypeError
        If `max_delta` is not a number.
    ValueError
        If `max_delta` is negative or NaN.

    Notes
    -----
    Source: `optax.clip`.
    """
    check_bounds(max_delta, None)
    return _make(lambda updates: _clip.clip_by_value(updates, max_delta))


def clip_by_norm(max_norm: float) -> GradientTransformation:
    r"""Return a transformation that scales each update whose own norm exceeds `max_norm` down to the norm `max_norm`.

    .. math:: U \leftarrow \min(1, \mathit{max\_norm} / \|U\|) U

    Parameters
    ----------
    max_norm : float
        The threshold, zero or more; a plain number.

    Returns
    -------
    optax.GradientTransformation
        A transformation without state, of updates of any shape and dtype that :func:`gradclip_spec.clip_by_norm` takes.

    Raises
    ------
    TypeError
        If `max_norm` is not a number.
    ValueError
        If `max_norm` is negative or NaN.

    Notes
    -----
    Source: TensorFlow's `clip_by_norm`; Optax has none.
    """
    check_number("max_norm", max_norm)
    return _make(lambda updates: _clip.clip_by_norm(updates, max_norm))


def clip_by_global_norm(max_norm: float) -> GradientTransformation:
    r"""Return a transformation that scales all updates by one coefficient, as `optax.clip_by_global_norm` does.

    .. math:: U_i \leftarrow \min(1, \mathit{max\_norm} / N) U_i, \qquad N = \sqrt{\textstyle\sum_i \|U_i\|^2}

    Parameters
    ----------
    max_norm : float
        The threshold, zero or more; a plain number.

    Returns
    -------
    optax.GradientTransformation
        A transformation without state, of updates of any shape and dtype that
        :func:`gradclip_spec.clip_by_global_norm` takes.

    Raises
    ------
    TypeError
        If `max_norm` is not a number.
    ValueError
        If `max_norm` is negative or NaN.

    Notes
    -----
    If Optax's sum of squares overflows, its updates become zero; this function clips them correctly.

    Source: `optax.clip_by_global_norm`.
    """
    check_number("max_norm", max_norm)
    return _make(lambda updates: _clip.clip_by_global_norm(updates, max_norm)[0])


def _make(function: Callable[[list[Any]], list[Any]]) -> GradientTransformation:
    """Return a stateless transformation that applies a function to a list of arrays."""
    import jax
    import optax

    def update(updates: Any, state: Any, params: Any = None) -> tuple[Any, Any]:
        leaves, structure = jax.tree.flatten(updates)
        return structure.unflatten(function(leaves)), state

    return optax.GradientTransformation(lambda params: optax.EmptyState(), update)
