"""Check that the catalogue of causes is well-formed. The error about a malformed entry names file, entry and field."""

from __future__ import annotations

from typing import Any

import pytest
import tomlkit

from gradclip_spec.rules.causes import (
    SEVERITIES,
    load_cause_groups,
    load_causes,
    parse_cause_groups,
    parse_causes,
)

ENTRY: dict[str, Any] = {
    "id": "some-cause",
    "title": "does something else",
    "question": "What does it do?",
    "severity": "wrong",
    "why": "Somebody relies on it.",
    "themes": ["formula"],
}


GROUP: dict[str, Any] = {
    "id": "some-group",
    "title": "does several things",
    "question": "What does it do?",
    "why": "Somebody relies on it.",
    "causes": ["some-cause", "other"],
}


def write(*entries: dict[str, Any]) -> str:
    return tomlkit.dumps({"cause": list(entries)})


def write_groups(*groups: dict[str, Any]) -> str:
    return tomlkit.dumps({"group": list(groups), "cause": [ENTRY, {**ENTRY, "id": "other"}]})


def test_catalogue_is_loaded() -> None:
    causes = load_causes()

    assert set(SEVERITIES) == {cause.severity for cause in causes.values()}
    assert all(cause.question.endswith("?") for cause in causes.values())
    assert all(cause.why.endswith(".") and not cause.title.endswith(".") for cause in causes.values())
    # A report shows a title in one line, beside the severity.
    assert [cause.title for cause in causes.values() if len(cause.title) > 80] == []


def test_right_entry_is_accepted() -> None:
    assert parse_causes(write(ENTRY), "my.toml")["some-cause"].themes == ("formula",)


@pytest.mark.parametrize("field", ENTRY)
def test_missing_field_is_named(field: str) -> None:
    entry = {name: value for name, value in ENTRY.items() if name != field}

    with pytest.raises(ValueError, match=rf"my\.toml, \[\[cause\]\] 1.*, {field}: this field is missing"):
        parse_causes(write(entry), "my.toml")


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("severity", "terrible", "'terrible' is not one of destroyed, unclipped"),
        ("themes", ["formula", "weather"], "there is no theme 'weather'"),
        ("themes", [], "is not a list of themes"),
        ("themes", "formula", "is not a list of themes"),
        ("title", "", "is not a text that is not empty"),
        ("why", 3, "is not a text that is not empty"),
        ("colour", "red", "there is no such field"),
    ],
)
def test_wrong_field_is_named(field: str, value: Any, says: str) -> None:
    with pytest.raises(ValueError, match=r"my\.toml, \[\[cause\]\] 2 \(other\), ") as raised:
        parse_causes(write(ENTRY, {**ENTRY, "id": "other", field: value}), "my.toml")

    assert f"{field}: " in str(raised.value)
    assert says in str(raised.value)


def test_second_entry_of_one_name_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\[\[cause\]\] 2 \(some-cause\), id: the id 'some-cause' appears twice"):
        parse_causes(write(ENTRY, ENTRY), "my.toml")


@pytest.mark.parametrize("text", ["[[cause", "cause = 3", "[[reason]]\nid = 'x'", "cause = [3]"])
def test_other_files_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"my\.toml"):
        parse_causes(text, "my.toml")


def test_groups_are_loaded() -> None:
    assert all(len(group.causes) > 1 for group in load_cause_groups().values())
    assert parse_cause_groups(write_groups(GROUP), "my.toml")["some-group"].causes == ("some-cause", "other")


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"causes": ["some-cause", "third"]}, "causes: there is no cause 'third'"),
        ({"causes": "some-cause"}, "causes: 'some-cause' is not a list of causes"),
        ({"title": ""}, "title: '' is not a text that is not empty"),
        ({"severity": "wrong"}, "severity: there is no such field"),
    ],
)
def test_malformed_group_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=rf"my\.toml, \[\[group\]\] 1 \(some-group\), {says}"):
        parse_cause_groups(write_groups({**GROUP, **changes}), "my.toml")


def test_cause_in_two_groups_is_refused() -> None:
    with pytest.raises(ValueError, match=r"\[\[group\]\] 2 \(second\), causes: the cause 'other' is in another group"):
        parse_cause_groups(write_groups(GROUP, {**GROUP, "id": "second", "causes": ["other"]}), "my.toml")


def test_group_with_the_name_of_a_cause_is_refused() -> None:
    with pytest.raises(ValueError, match="id: the id 'some-cause' appears twice"):
        parse_cause_groups(write_groups({**GROUP, "id": "some-cause"}), "my.toml")
