"""What a framework's own documentation says, where it differs from the neutral rule: `gradclip_adapters/claims/*.toml`.

Those about an adapter that is a file, `my_adapter.py`, stand beside it in `my_adapter.claims.toml`.

A claim names the subjects and rules it speaks of, says in our words what follows (a formula, or the behaviour at an
edge), and quotes the phrase that says so. It excuses an observation only when it predicts it.

A phrase of a docstring is kept with the docstring's hash, so that a change of the text around it is noticed too.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import gradclip_adapters
from gradclip_adapters.contract import Subject

from .files import kept_file

__all__ = ["CLAIMS", "PREDICTIONS", "Claim", "claims_for", "docstrings", "drift", "load_claims"]

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
    #: The object in whose docstring the phrase stands, and the SHA-256 of `inspect.getdoc` of it.
    docstring: str | None = None
    docstring_sha256: str | None = None

    def speaks_of(self, subject: str, rule: str) -> bool:
        """Whether the claim is about this subject and rule."""
        return fnmatchcase(subject, self.subject) and any(fnmatchcase(rule, pattern) for pattern in self.rules)


@cache
def load_claims(adapter: str) -> tuple[Claim, ...]:
    """The claims about an adapter's framework; none where there is no file.

    Raises
    ------
    ValueError
        When a claim is not well-formed.
    """
    path = kept_file(adapter, "claims", CLAIMS)
    if not path.exists():
        return ()
    try:
        return tuple(map(_claim, tomllib.loads(path.read_text(encoding="utf-8")).get("claim", [])))
    except tomllib.TOMLDecodeError as error:
        msg = f"{path.name} is not TOML: {error}"
        raise ValueError(msg) from error
    except KeyError as error:
        msg = f"A claim in {path.name} lacks {error}."
        raise ValueError(msg) from error


def _claim(entry: Mapping[str, Any]) -> Claim:
    return Claim(
        subject=entry["subject"],
        rules=tuple(entry.get("rules", ["*"])),
        formula=entry.get("formula"),
        predicts=entry.get("predicts"),
        phrase=entry["phrase"],
        where=entry["where"],
        docstring=entry.get("docstring"),
        docstring_sha256=entry.get("docstring_sha256"),
    )


def claims_for(claims: Sequence[Claim], subject: Subject, rule: str) -> list[Claim]:
    """The claims that speak of a subject under a rule; a formula that the subject itself declares comes last."""
    found = [claim for claim in claims if claim.speaks_of(subject.name, rule)]
    if subject.formula is not None:
        phrase = str(subject.formula.get("phrase", "declared by the adapter"))
        where = str(subject.formula.get("where", "the adapter"))
        found.append(Claim(subject.name, ("*",), subject.formula, None, phrase, where))
    return found


#: Run by the framework's own Python: names of objects as arguments, their docstrings as JSON on the last line.
_READ_DOCSTRINGS = """
import functools, importlib, inspect, json, sys
found = {}
for name in sys.argv[1:]:
    module, *rest = name.split(".")
    found[name] = inspect.getdoc(functools.reduce(getattr, rest, importlib.import_module(module))) or ""
print()
print(json.dumps(found))
"""


def docstrings(names: Sequence[str], python: str) -> dict[str, str]:
    """The docstrings of objects, read by a Python that has them.

    Raises
    ------
    OSError
        When `python` is no program.
    subprocess.CalledProcessError
        When an object is not there.
    """
    command = [python, "-c", _READ_DOCSTRINGS, *names]
    done = subprocess.run(command, check=True, capture_output=True, text=True, encoding="utf-8")
    # Frameworks greet on standard output.
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def drift(claims: Sequence[Claim], found: Mapping[str, str]) -> list[str]:
    """Which claims the installed documentation no longer bears out: a sentence for each."""
    sentences = []
    for claim in claims:
        if claim.docstring is None:
            continue
        text = found[claim.docstring]
        if " ".join(claim.phrase.split()) not in " ".join(text.split()):
            sentences.append(f"The docstring of {claim.docstring} no longer says {claim.phrase!r}.")
        elif hashlib.sha256(text.encode()).hexdigest() != claim.docstring_sha256:
            sentences.append(
                f"The docstring of {claim.docstring} still says {claim.phrase!r}, and has changed: read it again, "
                f"and set docstring_sha256 to {hashlib.sha256(text.encode()).hexdigest()}."
            )
    return sentences
