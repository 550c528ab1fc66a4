"""Check that the catalogue of causes is well-formed."""

from __future__ import annotations

import tomllib
from collections import Counter
from dataclasses import fields
from pathlib import Path

import pytest

from gradclip_spec import rules
from gradclip_spec.rules.causes import SEVERITIES, Cause, CauseGroup, load_cause_groups, load_causes

FILE = Path(str(rules.__file__)).with_name("causes.toml")


def test_catalogue_holds_causes_and_groups_with_ids_of_their_own() -> None:
    document = tomllib.loads(FILE.read_text(encoding="utf-8"))

    assert document.keys() == {"cause", "group"}
    assert [
        id for id, count in Counter(one["id"] for kind in document.values() for one in kind).items() if count > 1
    ] == []


@pytest.mark.parametrize("entry", [*load_causes().values(), *load_cause_groups().values()], ids=lambda entry: entry.id)
def test_every_field_is_a_text_or_a_list_of_texts(entry: Cause | CauseGroup) -> None:
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


def test_severities_and_themes_exist() -> None:
    assert {cause.severity for cause in load_causes().values()} == SEVERITIES.keys()
    assert {theme for cause in load_causes().values() for theme in cause.themes} <= set(rules.THEMES)


def test_groups_share_no_cause() -> None:
    grouped = [cause for group in load_cause_groups().values() for cause in group.causes]

    assert len(set(grouped)) == len(grouped)
    assert set(grouped) <= load_causes().keys()
    assert all(len(group.causes) > 1 for group in load_cause_groups().values())
