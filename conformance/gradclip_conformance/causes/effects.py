"""Explain what a call does besides its results: errors that are due, warnings, shared memory, and changed inputs."""

from __future__ import annotations

from gradclip_adapters.contract import Reply

from .forms import strip_numbers
from .model import Explanation

__all__ = ["explain_effect"]

#: For each of these rules, the only cause that can break it. None of these rules is about the values of gradients.
ONLY = {
    "error-if-nonfinite": "error-flag-ignored",
    "error-if-nonfinite-atomic": "error-flag-ignored",
    "inputs-not-mutated": "inputs-changed",
    "no-warnings": "warns",
    "results-independent": "memory-shared",
    "shards-as-whole": "processes-differ",
    "surroundings-kept": "surroundings-changed",
}


def explain_effect(rule: str, reply: Reply) -> Explanation | None:
    """Return the cause that breaks a rule about effects, or None if the rule is about something else."""
    if rule not in ONLY:
        return None
    if rule == "inputs-not-mutated":
        return Explanation.of(ONLY[rule], effect=_say_what_inputs_hold(reply))
    texts = {
        "no-warnings": reply.warnings,
        "results-independent": reply.shared,
        "shards-as-whole": reply.apart,
        "surroundings-kept": reply.disturbed,
    }.get(rule)
    if not texts:
        return Explanation.of(ONLY[rule])
    text = strip_numbers(texts[0])
    is_read_only = rule == "results-independent" and "cannot be written" in text
    return Explanation.of("results-read-only" if is_read_only else ONLY[rule], text=text)


def _say_what_inputs_hold(reply: Reply) -> str:
    pairs = zip(reply.inputs or (), reply.gradients, strict=False)
    return "results" if all(now == got for now, got in pairs) else "other"
