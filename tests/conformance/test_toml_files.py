"""Check that an error in a TOML file names the file, the entry and the field."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gradclip_adapters.contract import EntryPoint
from gradclip_conformance.cases.toml_files import LONGEST_FILE, read_toml
from gradclip_conformance.known.claims import load_claims
from gradclip_conformance.known.failures import load_known, read_known
from gradclip_conformance.run.environments import recipes as environments
from gradclip_conformance.run.messages import check_formulas

KNOWN = {
    "subjects": '["*"]',
    "rules": '["norm.*"]',
    "reason": '"It fails."',
    "url": '"u"',
    "checked": '"2026-11-23"',
}
CAUSED = {**KNOWN, "cause": '"squares-overflow"'}
FORMULA = {"subject": '"*"', "phrase": '"It clips."', "where": '"there"'}
CLAIM = {**FORMULA, "predicts": '"all-zero"'}


def write_entry(kind: str, usual: dict[str, str], **changes: str) -> str:
    """Return the text of an entry with some changed values."""
    return "\n".join([f"[[{kind}]]", *(f"{key} = {value}" for key, value in {**usual, **changes}.items())]) + "\n"


@pytest.mark.parametrize("kind", ["expectations", "claims"])
@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\xff\x00", "cannot be read: 'utf-8' codec"),
        (b"[[", "is not TOML: "),
        (b"a = " + b"[" * 5_000 + b"]" * 5_000, "is not TOML: "),
        (b"# " + b"x" * LONGEST_FILE, "is longer than"),
        (b"a." * 50_000 + b"a = 1", "has a key of more than 64 parts"),
        (b"x = {" + b'"a b" . ' * 50_000 + b"a = 1}", "has a key of more than 64 parts"),
    ],
    ids=["bytes", "damaged", "nested", "long", "dotted", "dotted-in-quotes"],
)
def test_file_that_cannot_be_read_is_named(kind: str, content: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / f"lib.{kind}.toml").write_bytes(content)

    with pytest.raises(ValueError, match=rf"lib\.{kind}\.toml {said}"):
        (load_claims if kind == "claims" else load_known)(str(tmp_path / "lib.py"))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('known = ""', r"\$\.known must be array"),
        ("known = [1]", r"\$\.known\[0\] must be object, got 1"),
        ("deviation = []", "must not contain {'deviation'} properties"),
        (write_entry("known", KNOWN, subjects='"*"'), r"\$\.known\[0\]\.subjects must be array, got '\*'"),
        (write_entry("known", KNOWN) + write_entry("known", KNOWN, rules="[1]"), r"\$\.known\[1\]\.rules\[0\]"),
        (write_entry("known", KNOWN, reason="1"), r"\$\.known\[0\]\.reason must be string, got 1"),
        (write_entry("known", KNOWN, checked="2027-01-31"), r"\$\.known\[0\]\.checked"),
        (write_entry("known", KNOWN, checked='"2027-13-31"'), r"\[\[known\]\] 1: month must be"),
        (write_entry("known", KNOWN, versions='"~=2"'), r"\[\[known\]\] 1: The version specifier '~=2'"),
        (write_entry("known", KNOWN, by_chance='"yes"'), r"\$\.known\[0\]\.by_chance"),
        (write_entry("known", KNOWN, subject='["*"]'), r"there is no field 'subject'\. Did you mean subjects\?"),
        (
            write_entry("known", KNOWN, cause='"square-overflow"'),
            r"\[\[known\]\] 1: cause: there is no cause 'square-overflow'\. Did you mean",
        ),
        (
            write_entry("known", KNOWN, cause='"arithmetic-limits"'),
            "no cause 'arithmetic-limits'. It is a group: write .* squares-over",
        ),
        (
            write_entry("known", {name: KNOWN[name] for name in KNOWN if name != "rules"}),
            "cause: this field is missing; an entry without a cause names the rules",
        ),
        (write_entry("known", KNOWN, parameters="{ eps = 1e-6 }"), "cause: this field is missing"),
        (write_entry("known", CAUSED, parameters='{ eps = "x" }'), "could not convert string to float"),
        (
            write_entry("known", CAUSED, parameters="{ eps = [] }"),
            r"\$\.known\[0\]\.parameters\.eps must contain at least 1 items",
        ),
    ],
)
def test_wrong_known_failure_is_refused(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=rf"^lib\.toml.*{said}"):
        read_known(text, "lib.toml")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('claim = ""', r"\$\.claim must be array"),
        (write_entry("claim", CLAIM, subject="1"), r"\$\.claim\[0\]\.subject must be string, got 1"),
        (write_entry("claim", CLAIM, rules='"norm.*"'), r"\$\.claim\[0\]\.rules"),
        (write_entry("claim", CLAIM, predicts="1"), r"\$\.claim\[0\]\.predicts"),
        (write_entry("claim", CLAIM, docstring="[]"), r"\$\.claim\[0\]\.docstring"),
        (write_entry("claim", CLAIM, versions='"~=2"'), r"\[\[claim\]\] 1: The version specifier '~=2'"),
        (write_entry("claim", CLAIM, predicts='"all-zeros"'), "Did you mean all-zero"),
        (write_entry("claim", CLAIM, predicts='"unchanged:1"'), "which is not a behaviour"),
        (write_entry("claim", CLAIM, predicst='"all-zero"'), "Did you mean predicts"),
        (write_entry("claim", FORMULA, formula='{ kind = "coeficient" }'), "choose among plain"),
        (write_entry("claim", FORMULA, formula="{ eps = 1e-6 }"), "has no `kind`"),
        (write_entry("claim", CLAIM, formula='{ kind = "plain" }'), "one of: a formula, `predicts`, a domain"),
        (write_entry("claim", FORMULA), "one of: a formula, `predicts`, a domain"),
    ],
)
def test_wrong_claim_is_refused(text: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "lib.claims.toml").write_text(text, encoding="utf-8")

    with pytest.raises(ValueError, match=rf"^lib\.claims\.toml.*{said}"):
        load_claims(str(tmp_path / "lib.py"))


@pytest.fixture
def no_recipes() -> Iterator[None]:
    """Clear the cache of recipes before and after the test."""
    environments.read_recipes.cache_clear()
    yield
    environments.read_recipes.cache_clear()


@pytest.mark.usefixtures("no_recipes")
@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("[versions", " is not TOML"),
        ("[versions]", r"\$ must contain \['adapters'\] properties"),
        ("[versions]\n[adapters.torch]\nmodule = 1", r"\$\.adapters\.torch\.module "),
        ('[versions]\n[adapters.torch]\nmodule = "torch"\nneeds = ["torch"]', "'torch' is missing"),
    ],
)
def test_error_in_recipes_names_their_file(
    text: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "environments.toml").write_text(text, encoding="utf-8")
    monkeypatch.setattr(environments, "gradclip_adapters", SimpleNamespace(__file__=str(tmp_path / "__init__.py")))

    with pytest.raises(ValueError, match=rf"^environments\.toml.*{said}"):
        environments.read_recipes()


@pytest.mark.parametrize(
    ("formula", "said"),
    [
        ({}, "has no `kind`"),
        ({"kind": "x"}, "no formula of the kind 'x'"),
        ({"kind": ["plain"]}, "no formula of the kind"),
        ({"kind": "plain", "eps": "much"}, "`eps` must be a finite number"),
        ({"kind": "plain", "eps": float("nan")}, "`eps` must be a finite number"),
        ({"kind": "plain", "eps": -1.0}, "`eps` must be a finite number"),
        ({"kind": "plain", "eps": 10**400}, "`eps` must be a finite number"),
        ({"kind": "plain", "eps": True}, "`eps` must be a finite number"),
    ],
)
def test_invalid_formula_of_a_host_is_refused(formula: dict[str, Any], said: str) -> None:
    entry_point = EntryPoint("mine", "clip_by_norm", ("float32",), (), formula=formula)

    with pytest.raises(ValueError, match=re.escape(said)) as caught:
        check_formulas([entry_point])

    assert "'mine'" in str(caught.value)


def test_file_with_windows_line_ends_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b'a = 1\r\nb = "x"\r\n')

    assert read_toml(tmp_path / "a.toml") == {"a": 1, "b": "x"}
