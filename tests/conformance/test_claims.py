"""What is quoted from documentation, and that its drift is noticed."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import sys
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from gradclip_adapters.contract import Subject
from gradclip_conformance.cli import gradclip
from gradclip_conformance.known import claims
from gradclip_conformance.known.claims import CLAIMS, Claim, claims_for, docstrings, drift, load_claims

#: The module; the package's attribute of this name is the command.
COMMAND = importlib.import_module("gradclip_conformance.cli.expectations")

TEXT = inspect.getdoc(np.clip) or ""
TRUE = Claim(
    subject="*",
    rules=("*",),
    formula=None,
    predicts="raises",
    phrase="Clip (limit) the values in an array.",
    where="docstring of numpy.clip",
    docstring="numpy.clip",
    docstring_sha256=hashlib.sha256(TEXT.encode()).hexdigest(),
)


def changed(**members: Any) -> Claim:
    return replace(TRUE, **members)


def test_a_claim_speaks_of_its_subjects_and_rules_alone() -> None:
    claim = changed(subject="lib.clip*", rules=("norm.zero-*", "norm.scaled-above"))
    own = Subject("lib.clip", "clip_by_norm", ("float32",), formula={"kind": "coefficient", "eps": 1e-6})

    assert claims_for([claim], own, "norm.scaled-above")[0] is claim
    # What the subject itself declares comes beside it, and last.
    assert [each.formula for each in claims_for([claim], own, "norm.scaled-above")] == [None, own.formula]
    assert [each.formula for each in claims_for([claim], own, "norm.identity-below")] == [own.formula]
    assert claims_for([claim], replace(own, name="other.clip", formula=None), "norm.scaled-above") == []


def test_docstrings_are_read_by_another_python() -> None:
    assert docstrings(["numpy.clip"], sys.executable) == {"numpy.clip": TEXT}


def test_true_claim_does_not_drift() -> None:
    assert drift([TRUE], {"numpy.clip": TEXT}) == []


def test_line_breaks_in_a_phrase_do_not_matter() -> None:
    assert drift([TRUE], {"numpy.clip": TEXT.replace("limit) the", "limit)\n    the")})[0].endswith(".")
    assert "no longer" not in drift([TRUE], {"numpy.clip": TEXT.replace("limit) the", "limit)\n    the")})[0]


def test_missing_phrase_and_changed_surroundings_are_noticed() -> None:
    (gone,) = drift([changed(phrase="Anything goes.")], {"numpy.clip": TEXT})
    (other,) = drift([TRUE], {"numpy.clip": TEXT + " And more."})

    assert "no longer says 'Anything goes.'" in gone
    assert "has changed" in other
    assert hashlib.sha256((TEXT + " And more.").encode()).hexdigest() in other


def test_claim_outside_docstrings_is_left_alone() -> None:
    assert drift([changed(docstring=None)], {}) == []


@pytest.mark.parametrize(("claim", "code"), [(TRUE, 0), (changed(docstring_sha256="0"), 1)])
def test_command_exits_with_1_on_drift(claim: Claim, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(COMMAND, "load_claims", lambda adapter: (claim,))

    result = CliRunner().invoke(gradclip, ["expectations", "drift", "numpy"])

    assert result.exit_code == code, result.output
    assert ("As quoted: 1 claim." in result.output) == (code == 0)


def test_command_says_when_the_framework_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    claim = changed(docstring="no_such_framework.clip")
    monkeypatch.setattr(COMMAND, "load_claims", lambda adapter: (claim,))

    result = CliRunner().invoke(gradclip, ["expectations", "drift", "lib"])

    assert result.exit_code == 3
    assert "no_such_framework" in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("path", sorted(CLAIMS.glob("*.toml")), ids=lambda path: path.stem)
def test_each_claim_of_a_docstring_has_its_hash(path: object) -> None:
    for claim in load_claims(getattr(path, "stem", "")):
        assert (claim.docstring is None) == (claim.docstring_sha256 is None)
        assert (claim.predicts or "").split(":")[0] in ("", *claims.PREDICTIONS)
