"""Check where claims about documentation apply, and that a change of the documentation is noticed."""

from __future__ import annotations

import hashlib
import importlib
import inspect
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runs import run_command
from sample_runs import make_cell, make_header, make_run

from gradclip_adapters.contract import EntryPoint
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.judge.claims import select_claims
from gradclip_conformance.judge.model import Claim
from gradclip_conformance.known.claims import (
    CLAIMS,
    find_claim_faults,
    find_drift,
    load_claims,
    load_claims_of,
    read_docstrings,
)
from gradclip_conformance.oracle.formula import Formula
from gradclip_reports.records import Run
from gradclip_spec import rules

ROOT = Path(__file__).resolve().parents[2]

#: The module is imported by its full name, because the package's attribute of this name is the command.
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


def change_claim(**members: Any) -> Claim:
    return replace(TRUE, **members)


def test_claim_applies_to_its_entry_points_and_rules_only() -> None:
    claim = change_claim(subject="lib.clip*", rules=("norm.zero-*", "norm.scaled-above"))
    own = EntryPoint("lib.clip", "clip_by_norm", ("float32",), formula={"kind": "coefficient", "eps": 1e-6})
    formula = Formula("coefficient", 1e-6)

    assert select_claims([claim], "norm.scaled-above/small/float32", own)[0] is claim
    # The entry point's own formula comes last.
    assert [each.formula for each in select_claims([claim], "norm.scaled-above/small/float32", own)] == [None, formula]
    assert [each.formula for each in select_claims([claim], "norm.identity-below/small/float32", own)] == [formula]
    assert (
        select_claims([claim], "norm.scaled-above/small/float32", replace(own, name="other.clip", formula=None)) == []
    )


def test_claim_does_not_apply_to_excluded_rules() -> None:
    claim = change_claim(rules=("norm.*",), exclude=("norm.nan-*", "norm.zero-gradient/one/*"))

    assert claim.speaks_of("norm.none-stays-none/first/float32", "lib.clip")
    assert not claim.speaks_of("norm.nan-threshold/nan/float32", "lib.clip")
    assert not claim.speaks_of("norm.zero-gradient/one/float32", "lib.clip")
    assert claim.speaks_of("norm.zero-gradient/two/float32", "lib.clip")


def test_shipped_claims_of_torch_leave_out_invalid_thresholds() -> None:
    claim = next(claim for claim in load_claims("torch") if claim.formula)
    left_out = {rule.id for rule in rules.load() if rule.id.startswith("global-norm.")}
    left_out = {rule for rule in left_out if not claim.speaks_of(rule, "torch.nn.utils.clip_grad_norm_[foreach=None]")}

    assert left_out == {"global-norm.negative-threshold-refused", "global-norm.nan-threshold"}


def run_all_cases(entry_point: str, operation: str) -> Run:
    """Return a run in which an entry point passes all cases of its operation."""
    cases = [case for case in list_all_cases() if case.operation == operation]
    cells = [make_cell(subject=entry_point, operation=operation, rule=c.rule, case=c.id, dtype=c.dtype) for c in cases]
    return make_run(make_header("lib", "0", [(entry_point, operation)]), cells)


def test_claims_that_match_nothing_are_reported() -> None:
    run = run_all_cases("lib.clip[fast=True]", "clip_by_norm")
    decided = replace(run.cells[0], status="documented", quote=TRUE.phrase, url=TRUE.where)
    idle, run = run, replace(run, cells=(decided, *run.cells[1:]))

    (nothing,) = find_claim_faults(idle, [change_claim(subject="lib.clip[*]", rules=("norm.scaled-above",))])
    assert "it decides no cell" in nothing
    assert find_claim_faults(run, [change_claim(subject="lib.clip[*]", rules=("norm.scaled-above",))]) == []
    of_rows = change_claim(subject="lib.clip[*]", rules=("norm.scaled-above", "norm.*/s*_zero/*"))
    assert find_claim_faults(run, [of_rows]) == []
    (gone,) = find_claim_faults(run, [change_claim(subject="lib.clip_[*]")])
    (rule,) = find_claim_faults(run, [change_claim(subject="lib.*", rules=("norm.*", "norm.scaled_above"))])
    (other,) = find_claim_faults(run, [change_claim(subject="lib.*", rules=("norm.*",), exclude=("global-norm.*",))])
    assert "no entry point has such a name" in gone
    assert "'norm.scaled_above'" in rule
    assert "'global-norm.*'" in other


def test_docstrings_are_read_by_another_python() -> None:
    assert read_docstrings(["numpy.clip"], sys.executable) == {"numpy.clip": TEXT}


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("raise SystemExit(3)", "SystemExit: 3"),
        ("import os; os._exit(5)", "importing odd.clip ended the process, exit status 5"),
        ("raise ValueError('\\x1b[31m')", "ValueError: \x1b"),
        ("", "AttributeError: module 'odd' has no attribute 'clip'"),
        ("class E(Exception):\n    def __str__(self): raise E\nraise E", "importing odd.clip ended the process"),
    ],
)
def test_module_that_cannot_be_read_is_reported(
    body: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "odd.py").write_text(f"print('hello', flush=True)\n{body}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    with pytest.raises(ValueError, match=re.escape(said)):
        read_docstrings(["odd.clip"], sys.executable)


def test_odd_docstring_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "print('hello')\ndef clip(): ...\nclip.__doc__ = '\\ud800'\nimport atexit; atexit.register(print, 'bye')\n"
    (tmp_path / "odd.py").write_text(text, encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    found = read_docstrings(["odd.clip"], sys.executable)

    assert found == {"odd.clip": "\ud800"}
    assert "no longer says" in find_drift([change_claim(docstring="odd.clip")], found)[0]
    assert "has changed" in find_drift([change_claim(docstring="odd.clip", phrase="\ud800")], found)[0]


def test_claim_may_be_about_some_versions_only() -> None:
    old, new = load_claims_of("tensorflow", "2.15.1", {}), load_claims_of("tensorflow", "2.21.0", {})
    (changed,) = set(new) - set(old)

    # Since some version after 2.15, tf.clip_by_norm treats a negative threshold as zero, and says so.
    assert (changed.predicts, changed.versions) == ("all-zero", ">2.15.1")
    (before,) = set(old) - set(new)
    assert before.domain is not None
    assert set(old) & set(new)
    assert set(old) | set(new) == set(load_claims("tensorflow"))


def test_claim_may_be_about_some_devices_only(tmp_path: Path) -> None:
    claim = 'subject = "lib.clip"\nformula = { kind = "plain" }\nphrase = "on a GPU"\nwhere = "docs"'
    (tmp_path / "lib.claims.toml").write_text(f'[[claim]]\n{claim}\ndevices = "cuda*"\n', encoding="utf-8")

    assert len(load_claims_of(str(tmp_path / "lib.py"), "1.0", {"device": "cuda (a card)"})) == 1
    assert load_claims_of(str(tmp_path / "lib.py"), "1.0", {"device": "cpu"}) == ()
    run = run_all_cases("lib.clip", "clip_by_norm")
    run = replace(run, header=replace(run.header, framework={"name": "lib", "version": "1.0"}))
    assert find_claim_faults(run, [change_claim(subject="lib.gone", versions=">1.0")]) == []
    assert len(find_claim_faults(run, [change_claim(subject="lib.gone", versions="<=1.0")])) == 1
    assert find_claim_faults(run, [change_claim(subject="lib.gone", devices="cuda*")]) == []


@pytest.mark.parametrize(
    ("claim", "docstring", "said"),
    [
        (TRUE, TEXT, []),
        (change_claim(docstring=None), "", []),
        (change_claim(phrase="Anything goes."), TEXT, ["no longer says 'Anything goes.'"]),
        (TRUE, f"{TEXT} And more.", ["has changed", hashlib.sha256(f"{TEXT} And more.".encode()).hexdigest()]),
        # Line breaks within the phrase do not matter.
        (TRUE, TEXT.replace("limit) the", "limit)\n    the"), ["has changed"]),
    ],
    ids=["true", "no docstring", "gone", "changed", "line break"],
)
def test_missing_phrase_and_changed_docstring_are_noticed(claim: Claim, docstring: str, said: list[str]) -> None:
    sentences = find_drift([claim], {"numpy.clip": docstring})

    assert len(sentences) == bool(said)
    assert all(words in sentence for sentence in sentences for words in said)


@pytest.mark.parametrize(("claim", "code"), [(TRUE, 0), (change_claim(docstring_sha256="0"), 1)])
def test_command_exits_with_1_on_drift(claim: Claim, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(COMMAND, "load_claims", lambda adapter: (claim,))

    result = run_command("expectations", "drift", "numpy")

    assert result.exit_code == code, result.output
    assert ("As quoted: 1 claim." in result.output) == (code == 0)


def test_command_says_that_the_framework_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    claim = change_claim(docstring="no_such_framework.clip")
    monkeypatch.setattr(COMMAND, "load_claims", lambda adapter: (claim,))

    result = run_command("expectations", "drift", "lib")

    assert result.exit_code == 3
    assert "no_such_framework" in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("path", sorted(CLAIMS.glob("*.toml")), ids=lambda path: path.stem)
def test_shipped_claims_are_short_and_complete(path: Path) -> None:
    for claim in load_claims(path.stem):
        assert (claim.docstring is None) == (claim.docstring_sha256 is None)
        assert 0 < len(claim.phrase.split()) <= 15
