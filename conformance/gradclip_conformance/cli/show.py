"""`gradclip show`: show a rule or a case, whole."""

from __future__ import annotations

import json
import shutil
import textwrap
from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

import click

from gradclip_reports.values import counted, readable
from gradclip_spec import rules as rule_book

from ..cases.build import OPERATIONS
from ..cases.catalogue import all_cases
from ..cases.model import (
    Case,
    CompiledAgrees,
    Metamorphic,
    NotSilent,
    RaisesOnNonfinite,
    Recorded,
    Refused,
    Repeatable,
    ReturnedNorm,
)
from ..cases.readable import readable_input
from ..cases.regressions import is_find
from ..judge.compiled import WHAT_IS_EXACT
from ..judge.measure import expected_arrays
from ..judge.relations import RELATIONS, Relation
from ..judge.single_call import HOLDS
from ..oracle.predict import clip_bound, clip_budget, norm_budget, predict
from .rules import did_you_mean, matching_rules

__all__ = ["show"]


@click.command(short_help="Show a rule or a case, whole.")
@click.argument("name", metavar="RULE|CASE")
def show(name: str) -> None:
    """Show a rule with its source and cases, or a case with its input and exactly what is expected."""
    for case in all_cases():
        if case.id == name:
            click.echo(_case_text(case))
            return
    # Not as a pattern: `show` tells of one rule.
    named = [rule for rule in rule_book.load() if rule.id in matching_rules(name) and "*" not in name]
    if len(named) == 1:
        click.echo(_rule_text(named[0]))
        return
    raise click.UsageError(_unknown_text(name, [rule.id for rule in named]))


def _unknown_text(name: str, named: Sequence[str]) -> str:
    """Return what to say of a name that is not one of a rule or a case."""
    if is_find(name):
        return f"{name!r} is a find of --deep: its input is in the record, and `gradclip repro FILE CASE` shows it."
    if len(named) > len(OPERATIONS):
        return f"{name!r} is an operation: `gradclip rules {name}` lists its {len(named)} rules."
    if named:
        return f"{name!r} is a rule of several operations. Name one: {', '.join(named)}."
    near = [case.id for case in all_cases() if case.rule == name.split("/")[0] and "/" in name]
    if near := get_close_matches(name, near, 3, cutoff=0.0):
        return f"There is no rule or case {name!r}. Did you mean {', '.join(near)}?"
    hint = did_you_mean(name, [rule.id for rule in rule_book.load()]) or " `gradclip rules GLOB` lists the rules."
    return f"There is no rule or case {name!r}.{hint}"


def _rule_text(rule: rule_book.Rule) -> str:
    cases = [case.id for case in all_cases() if case.rule == rule.id]
    lines = [f"{rule.id}  ({rule.level})", "", _wrapped(rule.statement)]
    if rule.formula:
        lines += ["", f"In LaTeX: {rule.formula}"]
    lines += ["", *_sources_text(rule)]
    return "\n".join([*lines, "", f"{counted(len(cases), 'case')}:", *(f"  {case}" for case in cases)])


def _sources_text(rule: rule_book.Rule) -> list[str]:
    lines = ["Source (SPEC.md lists the documents):" if rule.source else "Source: none; the documents are silent here."]
    for source in rule.source:
        gloss = f" ({source.gloss})" if source.gloss else ""
        quotation = f'  {source.document}, {source.where}: "{source.phrase}"{gloss}'
        lines.append(_wrapped(quotation, subsequent_indent="    "))
    return lines


def _wrapped(text: str, subsequent_indent: str = "") -> str:
    """Return the text in lines that fit the terminal."""
    width = max(60, shutil.get_terminal_size((80, 24)).columns)
    return textwrap.fill(
        text, width, subsequent_indent=subsequent_indent, break_long_words=False, break_on_hyphens=False
    )


def _values_text(value: Any) -> str:
    """Return values to be read, and below them the same with every bit."""
    return f"{_wrapped(readable(value))}\n\nThe same exactly:\n{json.dumps(value, indent=2)}"


def _case_text(case: Case) -> str:
    rule = next(rule for rule in rule_book.load() if rule.id == case.rule)
    lines = [case.id, "", _wrapped(f"{rule.statement} ({rule.level})"), "", *_sources_text(rule)]
    return "\n".join([*lines, "", "Call:", _call_text(case), "", "Expected:", _expected_text(case)])


def _call_text(case: Case) -> str:
    return _values_text({"operation": case.operation, **readable_input(case)})


def _expected_text(case: Case) -> str:
    match case.expectation:
        case NotSilent():
            right = "the formula's result, NaN everywhere, or (unless an error can be asked for, and was not) an error"
            return _wrapped(f"{right}; not the gradients as if nothing had happened")
        case Refused():
            return "an error, and unchanged gradients"
        case RaisesOnNonfinite(atomic):
            return "an error" + (", and unchanged gradients" if atomic else "")
        case Recorded():
            return "nothing: nobody defines it, and what happens is recorded"
        case Repeatable(threads):
            how = f"from {threads} threads at once" if threads else "again, on fresh copies of the gradients"
            return f"the same call {how} gives the same bits"
        case CompiledAgrees():
            says = "the same call inside the framework's compiler gives the same results, or both raise an error."
            return "\n".join(map(_wrapped, (says, _distance_text(case, exact=False), WHAT_IS_EXACT)))
        case Metamorphic(relation, exponent) if relation in RELATIONS:
            return _relation_text(case, RELATIONS[relation], exact=exponent != 0)
        case Metamorphic(relation):
            return _wrapped(HOLDS[relation])
    prediction = predict(case)
    if isinstance(case.expectation, ReturnedNorm):
        bounds = prediction.norms[0]
        middle = None if bounds is None else float(bounds.middle)
        norm = "not finite" if middle is None else f"{middle!r} ({middle.hex()})"
        return f"the norm {norm}, within {norm_budget(case):g} ulp"
    gradients = _values_text(expected_arrays(case, prediction.gradients))
    return f"{gradients}\n{type(case.expectation).__name__}; elements that are scaled within {clip_budget(case):g} ulp"


def _relation_text(case: Case, relation: Relation, *, exact: bool) -> str:
    """Return the text of a second call, and how its results relate to those of the first."""
    says = f"A second call follows, in which {relation.says}."
    # Without the first results there is no call to show that is made of them.
    second = "" if relation.of_results else f"\n{_call_text(relation.second(case, ()))}"
    return f"{_wrapped(says)}{second}\n{_wrapped(f'{relation.holds} {_distance_text(case, exact)}')}"


def _distance_text(case: Case, exact: bool) -> str:
    budget, bound = 0.0 if exact else 2 * clip_budget(case), 2 * clip_bound(case)
    if bound == 0:
        return "No element may differ."
    return (
        f"Elements that are at most {budget:g} ulp apart pass; more than {bound:g} ulp, twice the error bound, fails."
    )
