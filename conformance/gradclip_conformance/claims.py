"""What a framework's own documentation says, where it differs from the neutral rule: `gradclip_adapters/claims/*.toml`.

A claim names the subjects and rules it speaks of, says in our words what follows (a formula, or the behaviour at an
edge), and quotes the phrase that says so. It excuses an observation only when it predicts it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import gradclip_adapters
from gradclip_adapters.contract import Subject

__all__ = ["CLAIMS", "PREDICTIONS", "Claim", "claims_for", "load_claims"]

CLAIMS = Path(gradclip_adapters.__file__).parent / "claims"

#: What a claim may predict of an edge beside a formula; a prediction may add the name of the exception: `raises:X`.
PREDICTIONS = ("unchanged", "all-nan", "all-zero", "sign-flipped", "raises", "norm-dtype-of-input")


@dataclass(frozen=True)
class Claim:
    """One thing that the documentation of a framework says."""

    subject: str
    rules: tuple[str, ...]
    formula: Mapping[str, Any] | None
    predicts: str | None
    phrase: str
    where: str

    def speaks_of(self, subject: str, rule: str) -> bool:
        """Whether the claim is about this subject and rule."""
        return fnmatchcase(subject, self.subject) and any(fnmatchcase(rule, pattern) for pattern in self.rules)


@cache
def load_claims(adapter: str) -> tuple[Claim, ...]:
    """The claims about an adapter's framework; none where there is no file."""
    path = CLAIMS / f"{adapter}.toml"
    if not path.exists():
        return ()
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("claim", [])
    return tuple(
        Claim(
            subject=entry["subject"],
            rules=tuple(entry.get("rules", ["*"])),
            formula=entry.get("formula"),
            predicts=entry.get("predicts"),
            phrase=entry["phrase"],
            where=entry["where"],
        )
        for entry in entries
    )


def claims_for(claims: Sequence[Claim], subject: Subject, rule: str) -> list[Claim]:
    """The claims that speak of a subject under a rule; a formula that the subject itself declares comes last."""
    found = [claim for claim in claims if claim.speaks_of(subject.name, rule)]
    if subject.formula is not None:
        phrase = str(subject.formula.get("phrase", "declared by the adapter"))
        where = str(subject.formula.get("where", "the adapter"))
        found.append(Claim(subject.name, ("*",), subject.formula, None, phrase, where))
    return found
