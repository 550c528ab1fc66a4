"""Recognise right results: as they are, in another order, of other units, or of another threshold."""

from __future__ import annotations

import math
from dataclasses import replace

from gradclip_adapters.arrays import convert_thresholds
from gradclip_adapters.mesh import parse_mesh

from ..cases.stacking import list_tensors, regroup_units
from .facts import Seen
from .forms import explain_form
from .meaning import explain_excluded
from .order import restore_orders
from .values import is_right_value

__all__ = ["are_addends_clipped", "has_other_units", "is_in_other_order", "is_right"]


def is_right(seen: Seen) -> bool:
    """Return whether the results of a call are right."""
    if explain_form(seen) is not None or explain_excluded(seen) is not None:
        return False
    return all(group.is_right for group in seen.groups) if seen.operation.is_by_norm else is_right_value(seen)


def is_in_other_order(seen: Seen) -> bool:
    """Return whether the results are right, but in another order."""
    return any(map(is_right, restore_orders(seen)))


def has_other_units(seen: Seen) -> bool:
    """Return whether each tensor is right, or would be right if it had other units."""
    case = seen.case
    numbers = {id(gradient): number for number, gradient in enumerate(case.gradients)}
    for parts in list_tensors(case.gradients):
        got = [result for part in parts if (result := seen.results[numbers[id(part)]]) is not None]
        own = Seen(replace(case, gradients=tuple(parts)), got)
        others = (Seen(replace(case, gradients=units), values) for units, values in regroup_units(parts, got))
        if not (is_right(own) if len(got) == len(parts) else not got) and not any(map(is_right, others)):
            return False
    return True


def are_addends_clipped(seen: Seen) -> bool:
    """Return whether a sum of equal addends is clipped as a clip of each addend does."""
    if "mesh" not in seen.case.options:
        return False
    world = math.prod(parse_mesh(seen.case.options["mesh"]).values())
    options = convert_thresholds(seen.case.options, lambda value: world * value)
    return is_right(replace(seen, case=replace(seen.case, options=options)))
