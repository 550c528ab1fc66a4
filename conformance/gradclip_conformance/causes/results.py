"""Explain the wrong results of one call: compare them with the models of all causes, the most specific ones first."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from gradclip_adapters.contract import Array

from ..cases.build import make_tensor
from ..oracle.formats import read_float64_values
from ..oracle.formula import PLAIN
from .facts import AnsweredGroup, Kind, Seen, compute_plain_coefficient
from .fits import BREAKS, FORMULA_CAUSES, explain_by_formula
from .forms import explain_form, restore_form
from .laws import BESIDE_EMPTY
from .meaning import counts_nonfinite_excluded, explain_excluded, explain_special
from .model import Explanation, combine, unite
from .ranges import LIMITS, list_ranges, list_roundings
from .right import are_addends_clipped, has_moved_elements, has_other_units, is_in_other_order, is_right
from .traits import Traits
from .unusual import explain_rows, has_dense_rows, has_limited_elements, is_clipped_by_rows
from .values import list_values

#: Results that are right within the error bound of a sum in the dtype.
LONG_SUM = Explanation.predict("long-sum")

#: Results that are right if a fresh process computes them.
STATE_KEPT = Explanation.of("state-kept")

#: Results that are right in another order.
OTHER_ORDER = Explanation.predict("order-changed")

#: Causes of special calls. Their models cannot agree with an answer by chance.
SPECIAL = frozenset({"excluded-counted"} | {*FORMULA_CAUSES.values()})

#: Causes that make gradients of zeros NaN.
ZEROS_NAN = frozenset({"zero-over-zero", "zero-norm-nan"})


def explain_results(traits: Traits, seen: Seen) -> list[Explanation]:
    """Return each explanation of the wrong results of one call."""
    if has_dense_rows(seen):
        rows = explain_rows(seen, traits.list_formulas(seen))
        return [] if rows is None else [rows]
    if (form := explain_form(seen)) is not None:
        return _explain_form(traits, seen, form)
    found = _explain_numbers(traits, seen)
    if are_addends_clipped(seen):
        return [Explanation.of("addends-clipped"), *found]
    if is_in_other_order(seen):
        return [OTHER_ORDER, *found]
    return [Explanation.predict("elements-moved"), *found] if has_moved_elements(seen) else found


def _explain_form(traits: Traits, seen: Seen, form: Explanation) -> list[Explanation]:
    """Explain results of a wrong form. `effect` names the difference if the numbers themselves are right.

    If the numbers are wrong, too, and the entry point is known to return such a form, the explanation has both causes.
    """
    if is_in_other_order(seen):
        return [OTHER_ORDER, form]
    if (restored := restore_form(seen)) is None:
        return [form]
    effect, right = restored
    found = Explanation.of(form.cause, form.severity, **dict(form.parameters), effect=effect)
    if is_right(right):
        return [found]
    # Whatever else is wrong with the numbers, a known form does not excuse it.
    numbers = explain_results(replace(traits, tried=None), right)
    if LONG_SUM in numbers:
        return [found]
    if not numbers or form.cause not in traits.suspected:
        return [form]
    return [replace(one, others=(*one.others, found)) for one in numbers]


def _explain_numbers(traits: Traits, seen: Seen) -> list[Explanation]:
    """Explain results of the right form, if each belongs to the gradient at the same place."""
    if (excluded := explain_excluded(seen)) is not None:
        return [excluded]
    # A zero or a NaN may get other bits on its way to the clip or back, which explains nothing else.
    of_bits = [] if (other := explain_excluded(seen, by_bits=True)) is None else [other]
    if not seen.operation.is_by_norm:
        return list_values(seen, traits.list_barred(seen)) or of_bits
    if seen.operation.sums_examples:
        seen = _share_nan(seen)
    has_limits = seen.case.theme in LIMITS
    traits.remember(seen)
    if not has_limits and (found := _explain_by_likely(traits, seen)):
        return found
    each = [_explain_group(traits, group) for group in seen.groups if not group.is_right]
    if not each:
        return of_bits
    laws = _list_laws(traits, seen)
    common = intersect(each)
    special = [one for one in common if one.cause in SPECIAL]
    others = [one for one in common if one not in special]
    # At the limits of the range, a step that leaves it is more likely than a law that is wrong everywhere. A single
    # gradient that is left out of the norm is rather not clipped.
    is_alone = len(seen.tensors) == 1
    late = [
        one for one in laws if (has_limits and one.cause in BREAKS) or (is_alone and one.cause == "gradients-left-out")
    ]
    return [*special, *(law for law in laws if law not in late), *others, *late] or _mix(traits, seen, each)


def _list_laws(traits: Traits, seen: Seen) -> list[Explanation]:
    """Return the explanations by models of a whole call."""
    found = [law.explain() for law in traits.list_laws(seen) if law.reproduces(seen)]
    if seen.operation.divides_gradients and has_other_units(seen):
        found.append(Explanation.predict("other-units"))
    if not seen.operation.is_relative and has_limited_elements(seen):
        found.append(Explanation.predict("elements-limited"))
    if is_clipped_by_rows(seen):
        found.append(Explanation.predict("norm-of-rows"))
    return found


def _explain_by_likely(traits: Traits, seen: Seen) -> list[Explanation]:
    """Return an explanation of a call by a likely cause if its formula or its law gives the results.

    In a long call, a likely step that leaves the range explains them, too, since all laws would take far more time.
    """
    if not traits.likely:
        return []
    for formula in traits.list_formulas(seen):
        found = explain_by_formula(formula)
        if found.cause in traits.likely and all(group.is_plain or group.follows(formula) for group in seen.groups):
            return [] if all(group.is_plain for group in seen.groups) else [found]
    laws = (law for law in traits.list_laws(seen) if law.cause in traits.likely)
    by_laws = [law.explain() for law in laws if law.reproduces(seen)]
    if by_laws or not seen.is_long:
        return by_laws
    formulas, barred = [PLAIN, *traits.list_formulas(seen)], traits.list_barred(seen)
    each = [list_ranges(group, formulas, barred) for group in seen.groups if not group.is_right]
    return [one for one in intersect(each) if one.cause in traits.likely]


def _explain_group(traits: Traits, group: AnsweredGroup) -> list[Explanation]:
    """Return each explanation of the results of gradients that share a norm."""
    others = traits.list_formulas(group.seen)
    formulas = [PLAIN, *others]
    if (found := explain_special(group, formulas)) is not None:
        return [found]
    if group.total is not None or not group.threshold >= 0:
        return []
    if counts_nonfinite_excluded(group):
        return [Explanation.of("excluded-counted")]
    every = [explain_by_formula(formula) for formula in others if group.follows(formula)]
    # Old memory may make the norm infinite or NaN, and the gradients zero or unchanged.
    if BESIDE_EMPTY.cause in traits.suspected and BESIDE_EMPTY.scales(group):
        every.append(BESIDE_EMPTY.explain())
    every += list_ranges(group, formulas, traits.list_barred(group.seen))
    every += list_roundings(group, formulas, is_narrow="narrower-arithmetic" in traits.suspected | traits.likely)
    every += [symptom] if (symptom := _describe_symptom(group)) is not None else []
    return list(dict.fromkeys(every))


def _describe_symptom(group: AnsweredGroup) -> Explanation | None:
    """Describe the results of finite gradients, or return None if they are none of these."""
    kinds = group.kinds
    if kinds == {Kind.SAME} and 0 <= group.threshold < group.norm:
        return Explanation.describe("not-clipped", "unclipped")
    if kinds == {Kind.ZERO}:
        return Explanation.describe("gradients-zeroed", "destroyed")
    if kinds == {Kind.NAN}:
        return Explanation.describe("gradients-nan", "destroyed")
    if _is_partly_clipped(group) or _leaves_some(group):
        return Explanation.describe("not-clipped", "unclipped", effect="some")
    return None


def _is_partly_clipped(group: AnsweredGroup) -> bool:
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


def _leaves_some(group: AnsweredGroup) -> bool:
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


def intersect(each: Sequence[Sequence[Explanation]]) -> list[Explanation]:
    """Return the explanations that all parts of an answer share."""
    found = []
    for one in each[0] if each else ():
        same = [next((other for other in others if other.key == one.key), None) for others in each]
        if None not in same and (united := unite(same)) is not None:
            found.append(united)
    return found


def _mix(traits: Traits, seen: Seen, each: Sequence[Sequence[Explanation]]) -> list[Explanation]:
    """Explain an answer whose gradients have different causes, of which the entry point has each."""
    rest = {found[0] if found else None for found in each}
    # Leave out the cause "nonfinite-silent" if there is another one, too.
    silent = {one for one in rest if one is not None and one.cause == "nonfinite-silent"}
    rest = (rest - silent) if len(rest) > 1 else rest
    if seen.operation.sums_examples and any(one is not None and _spoils_sum(traits, one) for one in rest):
        # The results are sums over the examples, so NaN in one of them is in all.
        rest = {one for one in rest if one is None or one.cause != "gradients-nan"}
    if (united := unite(rest)) is not None:
        return [united]
    causes = {one.cause if one is not None else "" for one in rest}
    return [combine([one for one in rest if one is not None])] if causes and causes <= traits.suspected else []


def _spoils_sum(traits: Traits, found: Explanation) -> bool:
    """Return whether the cause of one example makes the sum of all examples NaN.

    `_share_nan` gives NaN to examples of zeros. So their cause counts only if other cells show it, too.
    """
    return ("effect", "nan") in found.parameters or (found.cause in ZEROS_NAN and found.cause in traits.shown)


def _share_nan(seen: Seen) -> Seen:
    """Return NaN for examples of zeros, too, if finite ones became NaN. In a sum, nobody can tell whose NaN it is."""
    values = [None if one.array is None else read_float64_values(one.array) for one in seen.case.gradients]
    spoilt = (
        given is not None and got is not None and np.isfinite(given).all() and np.isnan(read_float64_values(got)).any()
        for given, got in zip(values, seen.results, strict=True)
    )
    if not any(spoilt):
        return seen
    shared: list[Array | None] = [
        got
        if given is None or given.any() or got is None
        else make_tensor([math.nan] * given.size, got.dtype, got.shape).array
        for given, got in zip(values, seen.results, strict=True)
    ]
    return replace(seen, results=shared)
