"""Check that the catalogues of rules and of causes are well-formed, and that SPEC.md matches the rules."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from collections import Counter
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from gradclip_spec import rules
from gradclip_spec.rules.catalogue import write_catalogue
from gradclip_spec.rules.causes import SEVERITIES, Cause, CauseGroup, load_cause_groups, load_causes

ROOT = Path(__file__).parents[2]

#: The fields of the smallest valid entry.
ENTRY: dict[str, Any] = {"id": "some-rule", "operations": ["value"], "level": "should", "statement": "It is so."}
#: The documents of the table in the page.
DOCUMENTS = set(re.findall(r"^\| `(\d{3})` \|", write_catalogue(), flags=re.MULTILINE))
SOURCE = {"document": "001", "where": "1", "phrase": "It is so."}


def test_names_have_lower_case_letters_and_hyphens() -> None:
    for rule in rules.load():
        assert set(rule.name) <= set("abcdefghijklmnopqrstuvwxyz-"), rule.id


def test_every_theme_has_rules() -> None:
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


def test_causes_and_their_groups_have_ids_of_their_own() -> None:
    document = tomllib.loads(Path(rules.__file__).with_name("causes.toml").read_text(encoding="utf-8"))

    assert document.keys() == {"cause", "group"}
    assert max(Counter(entry["id"] for kind in document.values() for entry in kind).values()) == 1


@pytest.mark.parametrize("entry", [*load_causes().values(), *load_cause_groups().values()], ids=lambda entry: entry.id)
def test_every_field_of_a_cause_is_a_text_or_a_list_of_texts(entry: Cause | CauseGroup) -> None:
    for field in fields(entry):
        value = getattr(entry, field.name)
        assert value, field.name
        if field.name in ("themes", "causes"):
            assert isinstance(value, tuple), field.name
            assert all(isinstance(one, str) for one in value), field.name
        else:
            assert isinstance(value, str), field.name
    assert entry.question.endswith("?")
    assert entry.why.endswith(".")
    assert not entry.title.endswith(".")
    # A report shows a title in one line, beside the severity.
    assert len(entry.title) <= 80


def test_severities_and_themes_of_causes_exist() -> None:
    assert {cause.severity for cause in load_causes().values()} == SEVERITIES.keys()
    assert {theme for cause in load_causes().values() for theme in cause.themes} <= set(rules.THEMES)


def test_groups_share_no_cause() -> None:
    grouped = [cause for group in load_cause_groups().values() for cause in group.causes]

    assert len(set(grouped)) == len(grouped)
    assert set(grouped) <= load_causes().keys()
    assert all(len(group.causes) > 1 for group in load_cause_groups().values())
