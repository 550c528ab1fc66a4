"""Check that the rule catalogue is well-formed, that SPEC.md matches it, and that malformed entries are refused."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from gradclip_spec import rules
from gradclip_spec.rules.catalogue import write_catalogue

ROOT = Path(__file__).parents[2]

#: The fields of the smallest valid entry.
ENTRY: dict[str, Any] = {"id": "some-rule", "operations": ["value"], "level": "should", "statement": "It is so."}
#: The documents of the table in the page.
DOCUMENTS = set(re.findall(r"^\| `(\d{3})` \|", write_catalogue(), flags=re.MULTILINE))
SOURCE = {"document": "001", "where": "1", "phrase": "It is so."}


def test_ids_are_operation_and_name() -> None:
    for rule in rules.load():
        assert rule.id == f"{rule.operation}.{rule.name}"
        assert rule.name == rule.name.lower()
        assert set(rule.name) <= set("abcdefghijklmnopqrstuvwxyz-"), rule.id


def test_ids_are_unique_and_every_theme_has_rules() -> None:
    assert max(Counter(rule.id for rule in rules.load()).values()) == 1
    assert tuple(dict.fromkeys(rule.theme for rule in rules.load())) == rules.THEMES


def test_every_file_is_a_theme() -> None:
    assert {path.stem for path in Path(rules.__file__).parent.glob("*.toml")} == {*rules.THEMES, "causes", "questions"}


def test_statements_are_sentences() -> None:
    for rule in rules.load():
        assert rule.statement[0].isupper(), rule.id
        assert rule.statement.endswith("."), rule.id
        assert "$" not in rule.formula, rule.id


def test_quotations_are_short_and_glossed() -> None:
    for rule in rules.load():
        for source in rule.source:
            assert source.document in DOCUMENTS, rule.id
            assert 0 < len(source.phrase.split()) <= 15, source
            # Chinese has no spaces between words, and most words have two characters.
            assert sum(not character.isascii() for character in source.phrase) <= 40, source
            assert source.phrase.isascii() or source.gloss, f"{rule.id}: a quotation that is not English needs a gloss"


def test_every_document_backs_a_rule() -> None:
    assert {source.document for rule in rules.load() for source in rule.source} == DOCUMENTS


@pytest.mark.parametrize("operation", ["norm", "global-norm"])
def test_formula_rules_of_the_norms_have_the_level_must(operation: str) -> None:
    levels = {rule.id: rule.level for rule in rules.load()}
    for name in ("scaled-above", "identity-below", "at-threshold", "excluded-untouched", "zero-threshold"):
        assert levels[f"{operation}.{name}"] == "must"


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"level": "may"}, "choose from the levels"),
        ({"operations": ["value", "average"]}, "operations"),
        ({"colour": "red"}, "the keys"),
        ({"level": "must"}, "'must' needs a source"),
        ({"source": [SOURCE]}, "other levels take none"),
    ],
)
def test_a_malformed_entry_is_refused(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        rules._make_rules({**ENTRY, **changes}, "formula")


def test_an_entry_without_a_statement_is_refused() -> None:
    with pytest.raises(ValueError, match="the keys"):
        rules._make_rules({key: value for key, value in ENTRY.items() if key != "statement"}, "formula")


def test_a_repeated_id_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rules, "THEMES", ("zero", "zero"))
    with pytest.raises(ValueError, match=r"appears twice, in zero\.toml and in zero\.toml"):
        rules.load.__wrapped__()


def test_page_matches_the_rules() -> None:
    page = (ROOT / "SPEC.md").read_text(encoding="utf-8")

    assert page == write_catalogue(), "SPEC.md is stale; run: python -m gradclip_spec.rules > SPEC.md"


def test_page_holds_every_rule_with_its_quotations() -> None:
    page = write_catalogue()
    for rule in rules.load():
        assert page.count(f"\n#### `{rule.id}` ({rule.level})\n") == 1
        assert rule.statement in page
        assert all(source.phrase in page for source in rule.source)


def test_page_is_printed_in_utf_8_on_any_terminal() -> None:
    command = [sys.executable, "-m", "gradclip_spec.rules"]
    environment = os.environ | {"PYTHONIOENCODING": "ascii"}
    printed = subprocess.run(command, capture_output=True, check=True, cwd=ROOT, env=environment)

    assert printed.stdout.decode("utf-8") == write_catalogue()
