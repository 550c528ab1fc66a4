"""`gradclip show`: a rule or a case, whole."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase

import click

from gradclip_spec import rules as rule_book

from ..case import Case, NotSilent, RaisesOnNonfinite, Recorded, Refused, ReturnedNorm
from ..cases import all_cases
from ..measure import expected_arrays
from ..predict import clip_budget, norm_budget, predict
from ..show import readable_input

__all__ = ["show"]


@click.command()
@click.argument("name", metavar="RULE|CASE")
def show(name: str) -> None:
    """Show a rule with its source and cases, or a case with its input and exactly what is expected."""
    for case in all_cases():
        if case.id == name:
            click.echo(_case_text(case))
            return
    for rule in rule_book.load():
        if rule.id == name:
            click.echo(_rule_text(rule))
            return
    near = [rule.id for rule in rule_book.load() if fnmatchcase(rule.id, f"*{name.split('/')[0].split('.')[-1]}*")]
    hint = f" Did you mean {', '.join(near[:5])}?" if near else " `gradclip rules` lists the rules."
    msg = f"There is no rule or case {name!r}.{hint}"
    raise click.UsageError(msg)


def _rule_text(rule: rule_book.Rule) -> str:
    cases = [case.id for case in all_cases() if case.rule == rule.id]
    lines = [f"{rule.id}  ({rule.level})", "", rule.statement]
    if rule.formula:
        lines += ["", rule.formula]
    lines += ["", "Source:", *(f"  {source}" for source in rule.source)]
    return "\n".join([*lines, "", f"{len(cases)} cases:", *(f"  {case}" for case in cases)])


def _case_text(case: Case) -> str:
    rule = next(rule for rule in rule_book.load() if rule.id == case.rule)
    lines = [case.id, "", f"{rule.statement} ({rule.level})", "", "Call:"]
    lines.append(json.dumps({"operation": case.operation, **readable_input(case)}, indent=2))
    return "\n".join([*lines, "", "Expected:", _expected_text(case)])


def _expected_text(case: Case) -> str:
    match case.expectation:
        case NotSilent():
            return "the formula's result, NaN everywhere, or an error; not the gradients as if nothing had happened"
        case Refused():
            return "an error, and unchanged gradients"
        case RaisesOnNonfinite(atomic):
            return "an error" + (", and unchanged gradients" if atomic else "")
        case Recorded():
            return "nothing: nobody defines it, and what happens is recorded"
    prediction = predict(case)
    if isinstance(case.expectation, ReturnedNorm):
        bounds = prediction.norms[0]
        exact = "not finite" if bounds is None else float(bounds.middle).hex()
        return f"the norm {exact}, within {norm_budget(case):g} ulp"
    gradients = json.dumps(expected_arrays(case, prediction.gradients), indent=2)
    return f"{gradients}\n{type(case.expectation).__name__}; elements that are scaled within {clip_budget(case):g} ulp"
