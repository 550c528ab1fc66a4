"""Judge the rules that every call must keep, in addition to the expectation of each case.

A case is about one rule, but its answer shows more: the other elements, the excluded gradients, dtypes, the returned
norm, the gradients that were passed, the memory of the results, and the state of the process. Each of these has a rule.
If an answer breaks one of these rules, the cell fails, and names the broken rule.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from gradclip_adapters.contract import Reply
from gradclip_adapters.operations import OPERATIONS

from ..cases.model import Case, Expect, expect
from ..oracle.predict import predict
from ..oracle.question import get_clipping_threshold
from .arrays import has_same_bits
from .model import Context

__all__ = ["list_also_expected", "make_case_of_broken_rule"]

#: Expectations that judge every included element themselves, or whose calls have no defined result.
JUDGE_ELEMENTS = (
    "values",
    "norm-over-axes",
    "not-silent",
    "recorded",
    "refused",
    "raises-on-nonfinite",
    "rounded-bounds",
    "scaled-once",
    "sparse-sum",
)

#: Expectations of results that are not clipped gradients: parameters after several steps, and derivatives.
OTHER_RESULTS = ("update", "derivative")


def list_also_expected(context: Context, reply: Reply) -> Iterator[tuple[str, Case]]:
    """Yield each rule that a reply must keep, and a case that makes the same call under this rule."""
    case = context.case
    operation = case.rule.partition(".")[0]
    for name, expectation in _list_rules(context, reply):
        yield f"{operation}.{name}", replace(case, rule=f"{operation}.{name}", expectation=expectation)


def make_case_of_broken_rule(case: Case, rule: str) -> Case | None:
    """Return a case of the broken rule, with the same call, or None if such a case cannot be made without the reply."""
    known = {
        "dtype-kept": expect("structure", aspect="dtype"),
        "excluded-untouched": expect("untouched", indices=case.excluded),
        "returned-norm": expect("returned-norm"),
        "returned-norm-nonfinite": expect("returned-norm"),
        "inputs-not-mutated": expect("inputs-kept"),
        "in-place-written": expect("inputs-written"),
        "shards-as-whole": expect("processes-agree"),
        **dict(() if _judges_elements(case) else _list_element_rules(case)),
    }
    expectation = known.get(rule.partition(".")[2])
    return None if expectation is None else replace(case, rule=rule, expectation=expectation)


def _list_rules(context: Context, reply: Reply) -> Iterator[tuple[str, Expect]]:
    case, expectation = context.case, context.case.expectation
    # The norm and the copies are those of the first process. If they differ elsewhere, they need not be right here.
    if reply.apart:
        yield "shards-as-whole", expect("processes-agree")
    if expectation.name in OTHER_RESULTS:
        yield from _list_effect_rules(context, reply)
        return
    if expectation != expect("structure", aspect="dtype"):
        yield "dtype-kept", expect("structure", aspect="dtype")
    if case.excluded:
        yield "excluded-untouched", expect("untouched", indices=case.excluded)
    if not _judges_elements(case):
        yield from _list_element_rules(case)
    # The error bound for mixed dtypes is that of the coarsest dtype, because the norm may be rounded to it. Elements of
    # finer dtypes must still keep the direction, because they are rounded only in their own dtype.
    if OPERATIONS[case.operation].is_global and _has_several_dtypes(case) and None not in predict(case).norms:
        yield "direction-kept", expect("metamorphic", relation="direction")
    if reply.norm is not None and _has_a_norm(context):
        finite = predict(case).norms[0] is not None
        yield "returned-norm" if finite else "returned-norm-nonfinite", expect("returned-norm")
    yield from _list_effect_rules(context, reply)


def _has_a_norm(context: Context) -> bool:
    """Return whether the norm of a case is defined, and is not judged by the case's own expectation."""
    case = context.case
    defined = OPERATIONS[case.operation].is_global and case.expectation.name not in ("returned-norm", "scaled-once")
    # If a case excuses arithmetic that leaves the range, it also excuses the norm.
    excused = dict(case.expectation.parameters).get("leaves_range", False)
    return defined and not excused and not context.flushes_subnormals


def _judges_elements(case: Case) -> bool:
    expectation = case.expectation
    indices: Sequence[int] = dict(expectation.parameters).get("indices", ())
    return expectation.name in JUDGE_ELEMENTS or (bool(indices) and set(case.included) <= set(indices))


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


def _has_several_dtypes(case: Case) -> bool:
    return len({array.dtype for i in case.included if (array := case.gradients[i].array) is not None}) > 1


def _list_effect_rules(context: Context, reply: Reply) -> Iterator[tuple[str, Expect]]:
    case = context.case
    if reply.inputs is not None and case.expectation.name not in ("inputs-kept", "inputs-written"):
        if "functional" in context.subject.features:
            yield "inputs-not-mutated", expect("inputs-kept")
        elif "in_place" in context.subject.features and _are_inputs_different(reply):
            yield "in-place-written", expect("inputs-written")
    if reply.shared:
        yield "results-independent", expect("no-shared-memory")
    if reply.disturbed:
        yield "surroundings-kept", expect("surroundings-kept")


def _are_inputs_different(reply: Reply) -> bool:
    """Return whether the passed gradients differ from the results afterwards."""
    inputs = reply.inputs or ()
    if len(inputs) != len(reply.gradients):
        return True
    return any(
        got is not None and not has_same_bits(got, now, False) for got, now in zip(reply.gradients, inputs, strict=True)
    )
