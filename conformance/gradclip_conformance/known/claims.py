"""Read claims: statements in a framework's own documentation that differ from the neutral rule.

The claims about an adapter are in `gradclip_adapters/claims/<adapter>.toml`. If the adapter is a file, `my_adapter.py`,
they are in `my_adapter.claims.toml` next to it.

A claim quotes a phrase of the documentation, names the entry points and rules that it is about, and says what follows:
a formula, a behaviour such as NaN everywhere, or the domain of an option. It excuses only the answers that it predicts.
A domain excuses every answer to a call outside it, except an error that is raised after a gradient was changed.
`docs/how-to/claims.md` explains the keys of a claim.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import cache
from pathlib import Path
from typing import Any

import gradclip_adapters
from gradclip_reports.records import Run
from gradclip_reports.values import escape_line

from ..cases.patterns import matches, matches_any, suggest_known
from ..cases.toml_files import read_toml
from ..judge.model import Claim, Domain
from ..oracle.formula import Formula
from .files import find_sidecar_file, holds, is_version_within, read_entries

__all__ = [
    "CLAIMS",
    "PREDICTIONS",
    "Claim",
    "find_claim_faults",
    "find_drift",
    "load_claims",
    "load_claims_of",
    "read_docstrings",
]

CLAIMS = Path(gradclip_adapters.__file__).parent / "claims"

#: The behaviours that a claim may predict. The name of an exception may follow `raises`, as `raises:ValueError`.
PREDICTIONS = (
    "unchanged",
    "all-nan",
    "all-zero",
    "sign-flipped",
    "partly-nonfinite",
    "raises",
    "norm-nan",
    "norm-infinite",
    "norm-zero",
    "norm-missing",
)


@cache
def load_claims(adapter: str) -> tuple[Claim, ...]:
    """Return the claims about an adapter's framework, or none if there is no file.

    Raises
    ------
    ValueError
        If a claim is not well-formed.
    """
    path = find_sidecar_file(adapter, "claims", CLAIMS)
    if path is None or not os.path.isfile(path):
        return ()
    return read_entries(read_toml(path), "claim", path.name, "claims.json", _refuse_incomplete, _make_claim)


def load_claims_of(adapter: str, version: str, environment: Mapping[str, str]) -> tuple[Claim, ...]:
    """Return the claims about one version of an adapter's framework, on the device of its environment."""
    return tuple(claim for claim in load_claims(adapter) if holds(claim, version, environment))


def _refuse_incomplete(entry: Any) -> None:
    """Refuse a claim with missing or unknown keys. The message is clearer than the schema's message."""
    if not isinstance(entry, dict):
        return
    known = [field.name for field in fields(Claim)]
    for name in entry:
        if name not in known:
            msg = f"there is no key {name!r}.{suggest_known(name, known)}"
            raise ValueError(msg)
    for name in ("subject", "phrase", "where"):
        if name not in entry:
            msg = f"a claim needs {name!r}."
            raise ValueError(msg)
    formula, predicts = entry.get("formula"), entry.get("predicts")
    if sum(entry.get(name) is not None for name in ("formula", "predicts", "domain")) != 1:
        msg = "a claim must give one of: a formula, `predicts`, a domain."
        raise ValueError(msg)
    if isinstance(predicts, str):
        _refuse_unknown_prediction(predicts)
    if isinstance(formula, dict):
        Formula.of(formula)


def _make_claim(entry: Mapping[str, Any]) -> Claim:
    """Return the claim of an entry that satisfies the schema."""
    formula, predicts = entry.get("formula"), entry.get("predicts")
    lists = {"rules": tuple(entry.get("rules", ["*"])), "exclude": tuple(entry.get("exclude", []))}
    own = None if formula is None else Formula.of(formula)
    domain = Domain(**entry["domain"]) if "domain" in entry else None
    # Parse the specifier now, so that an error is not delayed until the framework's version is known.
    is_version_within("0", entry.get("versions", ""))
    return Claim(**{**entry, **lists, "formula": own, "predicts": predicts, "domain": domain})


def _refuse_unknown_prediction(predicts: str) -> None:
    word, colon, _ = predicts.partition(":")
    if word not in PREDICTIONS or (colon and word != "raises"):
        known = [*PREDICTIONS, "raises:<Name>"]
        msg = f"a claim predicts {predicts!r}, which is not a behaviour.{suggest_known(predicts, known)}"
        raise ValueError(msg)


def find_claim_faults(run: Run, claims: Iterable[Claim]) -> list[str]:
    """Return a sentence about each fault of some claims that a complete run shows."""
    faults = []
    version = run.header.framework.get("version", "")
    for claim in claims:
        if not holds(claim, version, run.header.environment):
            continue
        name = f"The claim about {claim.subject} ({claim.phrase[:60]!r})"
        names = {(cell.case, cell.rule) for cell in run.cells if matches(claim.subject, cell.subject)}
        if not names:
            faults.append(f"{name}: no entry point has such a name; correct or remove the claim.")
            continue
        faults += [
            f"{name}: no rule or case of its entry points matches {pattern!r}; correct or remove the pattern."
            for pattern in (*claim.rules, *claim.exclude)
            if not _is_about_rows(pattern) and not any(matches_any([pattern], *both) for both in names)
        ]
        if not any((cell.quote, cell.url) == (claim.phrase, claim.where) for cell in run.cells):
            faults.append(f"{name}: it decides no cell; correct or remove the claim.")
    return [escape_line(fault) for fault in faults]


def _is_about_rows(pattern: str) -> bool:
    """Return whether a pattern is about rows, which are drawn, so that a run may have none of them.

    Of all ids, only those of rows have underscores after the rule.
    """
    return "_" in pattern.partition("/")[2]


#: The framework's own Python runs this program. It takes names of objects, and writes their docstrings, or an error, as
#: JSON. Anything that a framework prints while it is imported is discarded.
_READ_DOCSTRINGS = """
import os, sys
told = os.dup(1)
nowhere = os.open(os.devnull, os.O_WRONLY)
os.dup2(nowhere, 1)
os.dup2(nowhere, 2)
import functools, importlib, inspect, json
found, error = {}, ""
try:
    for name in sys.argv[1:]:
        module, *rest = name.split(".")
        named = functools.reduce(getattr, rest, importlib.import_module(module))
        found[name] = str(inspect.getdoc(named) or "")[:10**6]
except BaseException as raised:
    error = "%s: %s" % (type(raised).__name__, raised)
os.fdopen(told, "wb").write(json.dumps([found, error[:1000]]).encode())
"""

#: The time limit for importing the framework.
_DOCSTRING_SECONDS = 300.0


def read_docstrings(names: Sequence[str], python: str) -> dict[str, str]:
    """Return the docstrings of objects, read by a Python that can import them.

    Raises
    ------
    OSError
        If `python` is not a program.
    ValueError
        If an object cannot be imported; the text says why.
    """
    command = [python, "-c", _READ_DOCSTRINGS, *names]
    try:
        done = subprocess.run(command, capture_output=True, check=False, timeout=_DOCSTRING_SECONDS)
    except subprocess.TimeoutExpired as error:
        msg = f"importing {', '.join(names)} took longer than {_DOCSTRING_SECONDS:g} s"
        raise ValueError(msg) from error
    try:
        found, raised = json.loads(done.stdout)
        texts = {name: str(found[name]) for name in names} if not raised else {}
    except (ValueError, TypeError, KeyError) as error:
        msg = f"importing {', '.join(names)} ended the process, exit status {done.returncode}"
        raise ValueError(msg) from error
    if raised:
        raise ValueError(raised)
    return texts


def find_drift(claims: Sequence[Claim], found: Mapping[str, str]) -> list[str]:
    """Return a sentence for each claim that the installed documentation no longer supports."""
    sentences = []
    for claim in claims:
        if claim.docstring is None:
            continue
        text = found[claim.docstring]
        if " ".join(claim.phrase.split()) not in " ".join(text.split()):
            sentences.append(f"The docstring of {claim.docstring} no longer says {claim.phrase!r}.")
        elif (digest := hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()) != claim.docstring_sha256:
            sentences.append(
                f"The docstring of {claim.docstring} still says {claim.phrase!r}, but has changed elsewhere: "
                f"read it again, and set docstring_sha256 to {digest}."
            )
    return sentences
