"""Describe results that no model explains: unchanged, zero, NaN, or clipped in part."""

from __future__ import annotations

import numpy as np

from .facts import Group, Kind, compute_plain_coefficient
from .model import Explanation

__all__ = ["SYMPTOMS", "describe_symptom"]

#: The names of results that no model explains.
SYMPTOMS = frozenset({"not-clipped", "gradients-zeroed", "gradients-nan"})


def describe_symptom(group: Group) -> Explanation | None:
    """Describe the results of finite gradients, or return None if they are none of these."""
    kinds = group.kinds
    if kinds == {Kind.SAME} and 0 <= group.threshold < group.norm:
        return Explanation.of("not-clipped", "unclipped")
    if kinds == {Kind.ZERO}:
        return Explanation.of("gradients-zeroed", "destroyed")
    if kinds == {Kind.NAN}:
        return Explanation.of("gradients-nan", "destroyed")
    if _is_partly_clipped(group) or _leaves_some(group):
        return Explanation.of("not-clipped", "unclipped", effect="some")
    return None


def _is_partly_clipped(group: Group) -> bool:
    """Return whether each element is right or unchanged, and elements of both kinds occur."""
    factor = group.compute_coefficient()
    if factor is None or factor == 1 or group.seen.rate != 1:
        return False
    right = kept = 0
    for tensor in group.distinct:
        scaled = tensor.before * float(factor)
        # Allow for two roundings in float64 beside the error bound of the dtype.
        bound = (group.compute_bound(tensor) + 1) * 2.0 ** (1 - tensor.form.precision)
        near = np.abs(tensor.after - scaled) <= np.abs(scaled) * bound + float(tensor.form.smallest_subnormal)
        same = tensor.after == tensor.before
        if not (near | same).all():
            return False
        right, kept = right + int((near & ~same).sum()), kept + int((same & ~near).sum())
    return right > 0 and kept > 0


def _leaves_some(group: Group) -> bool:
    """Return whether some gradients are unchanged, and the others are clipped by the norm of the others alone."""
    kept = [tensor for tensor in group.tensors if tensor.kind is Kind.SAME and not tensor.is_zero]
    rest = [tensor for tensor in group.tensors if tensor.kind is not Kind.SAME]
    if group.total is not None or group.is_long or not kept or not rest:
        return False
    factor = compute_plain_coefficient(group.compute_norm_over([tensor.exact for tensor in rest]), group.threshold)
    return (
        factor is not None
        and factor < 1
        and all(tensor.is_scaled_by(factor * group.seen.rate, group.compute_bound(tensor)) for tensor in rest)
    )
