"""Judge the rules that every call must keep, in addition to the expectation of each case.

A case is about one rule, but its answer shows more: the other elements, the excluded gradients, dtypes, the returned
norm, the gradients that were passed, the memory of the results, and the state of the process. Each of these has a rule.
If an answer breaks one of these rules, the cell fails, and names the broken rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from gradclip_adapters.contract import Reply
from gradclip_adapters.operations import OPERATIONS

from ..cases.model import Case, Expect, expect
from ..oracle.predict import predict
from ..oracle.question import get_clipping_threshold
from .arrays import has_same_bits
from .expectation import Expectation, list_changed, resolve
from .model import Context

#: What rules about parts of an answer expect, by their names without the operation.
PARTS = {
    "shards-as-whole": expect("processes-agree"),
    "dtype-kept": expect("structure", aspect="dtype"),
    "returned-norm": expect("returned-norm"),
    "returned-norm-nonfinite": expect("returned-norm"),
    "inputs-not-mutated": expect("inputs-kept"),
    "in-place-written": expect("inputs-written"),
}


def list_also_expected(context: Context, reply: Reply) -> Iterator[Case]:
    """Yield a case that makes the same call under each other rule that a reply must keep."""
    case = context.case
    for name, expectation in _list_rules(context, reply):
        yield case.under(f"{OPERATIONS[case.operation].prefix}.{name}", expectation)


def make_case_of_broken_rule(case: Case, rule: str) -> Case | None:
    """Return a case of the broken rule, with the same call, or None if such a case cannot be made without the reply."""
    excluded = {"excluded-untouched": expect("untouched", indices=case.excluded)}
    expectation = {**PARTS, **excluded, **dict(_list_element_rules(case))}.get(rule.partition(".")[2])
    return None if expectation is None else case.under(rule, expectation)


def _list_rules(context: Context, reply: Reply) -> Iterator[tuple[str, Expect]]:
    case, expectation = context.case, resolve(context.case.expectation)
    # The norm and the copies are those of the first process. If they differ elsewhere, they need not be right here.
    if reply.apart:
        yield "shards-as-whole", PARTS["shards-as-whole"]
    if expectation.gives_gradients:
        if case.expectation != PARTS["dtype-kept"]:
            yield "dtype-kept", PARTS["dtype-kept"]
        if case.excluded:
            yield "excluded-untouched", expect("untouched", indices=case.excluded)
        if not (expectation.judges_elements and {*case.included} <= {*expectation.list_judged_gradients(case)}):
            yield from _list_element_rules(case)
        if OPERATIONS[case.operation].is_global and not expectation.is_about_all:
            yield from _list_direction_rules(case)
        yield from _list_norm_rules(context, expectation, reply)
    yield from _list_effect_rules(context, expectation, reply)


def _list_element_rules(case: Case) -> Iterator[tuple[str, Expect]]:
    if not case.included:
        return
    if not OPERATIONS[case.operation].is_by_norm:
        yield "bounds", expect("values")
        return
    prediction = predict(case)
    if None in prediction.norms:
        # With an infinite threshold, the result for a norm that is not finite is undefined.
        if 0 <= get_clipping_threshold(case) < math.inf:
            yield "nan-not-silent", expect("not-silent")
        return
    expected = [prediction.gradients[i] for i in case.included]
    below = all(one is not None and one.is_unchanged for one in expected)
    yield "identity-below" if below else "scaled-above", expect("values")


def _list_direction_rules(case: Case) -> Iterator[tuple[str, Expect]]:
    # The error bound for mixed dtypes is that of the coarsest dtype, because the norm may be rounded to it. Elements of
    # finer dtypes must still keep the direction, because they are rounded only in their own dtype.
    dtypes = {array.dtype for i in case.included if (array := case.gradients[i].array) is not None}
    if len(dtypes) > 1 and None not in predict(case).norms:
        yield "direction-kept", expect("metamorphic", relation="direction")


#: Expectations that judge the norm themselves, or whose norm is that of other elements than those in the call.
WITH_OTHER_NORMS = ("returned-norm", "scaled-once", "sparse-sum")


def _list_norm_rules(context: Context, expectation: Expectation, reply: Reply) -> Iterator[tuple[str, Expect]]:
    case = context.case
    # A threshold that must be refused gives no norm. Another rule judges a call that returns one.
    if not OPERATIONS[case.operation].is_global or not get_clipping_threshold(case) >= 0:
        return
    if expectation.is_about_all:
        if "returns_norm" in context.subject.features:
            yield "returned-norm", expect("returned-norm", quick=True)
        return
    # If a case excuses arithmetic that leaves the range, it also excuses the norm.
    excused = context.flushes_subnormals or dict(case.expectation.parameters).get("leaves_range", False)
    if reply.norm is not None and not excused and case.expectation.name not in WITH_OTHER_NORMS:
        name = "returned-norm-nonfinite" if predict(case).norms[0] is None else "returned-norm"
        yield name, PARTS[name]


def _list_effect_rules(context: Context, expectation: Expectation, reply: Reply) -> Iterator[tuple[str, Expect]]:
    case = context.case
    if reply.inputs is not None and case.expectation.name not in ("inputs-kept", "inputs-written"):
        if "functional" in context.subject.features:
            yield "inputs-not-mutated", PARTS["inputs-not-mutated"]
        elif "in_place" in context.subject.features:
            if _are_inputs_different(reply):
                by = case.expectation if expectation.is_about_all else None
                yield "in-place-written", expect("inputs-written", by=by)
        elif spoiled := _list_changed_beside_results(case, reply):
            yield "inputs-not-mutated", expect("inputs-kept", indices=spoiled)
    if reply.shared:
        yield "results-independent", expect("no-shared-memory")
    if reply.disturbed:
        yield "surroundings-kept", expect("surroundings-kept")


def _list_changed_beside_results(case: Case, reply: Reply) -> tuple[int, ...]:
    """Return the indices of the passed gradients that have changed, and are not results themselves."""
    inputs, same = reply.inputs or (), reply.same_object
    if OPERATIONS[case.operation].sums_examples:
        # The sum over the examples is another array than their gradients.
        same = (False,) * len(inputs)
    if same is None or not len(case.gradients) == len(inputs) == len(same):
        return ()
    # One of the places of a gradient that is passed twice may have a copy as its result.
    firsts = [i if gradient.same_as is None else gradient.same_as for i, gradient in enumerate(case.gradients)]
    results = {first for first, is_result in zip(firsts, same, strict=True) if is_result}
    # An adapter may read a row-sparse gradient back as a dense array.
    changed = (i for i in list_changed(case, inputs) if case.gradients[i].rows is None)
    return tuple(i for i in changed if firsts[i] not in results)


def _are_inputs_different(reply: Reply) -> bool:
    """Return whether the passed gradients differ from the results afterwards."""
    inputs = reply.inputs or ()
    if len(inputs) != len(reply.gradients):
        return True
    return any(
        got is not None and not has_same_bits(got, now, False) for got, now in zip(reply.gradients, inputs, strict=True)
    )
