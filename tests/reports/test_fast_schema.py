"""Check the fast check of schemas. It accepts whole lines, and nothing that JSON Schema refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

import gradclip_reports
from gradclip_reports.fast_schema import Check, compile_schema
from gradclip_reports.records import Cell

SCHEMA: dict[str, Any] = json.loads(
    (Path(gradclip_reports.__file__).parent / "schemas" / "cell.json").read_text("utf-8")
)
FULL = jsonschema.Draft202012Validator(SCHEMA)
#: Values around every keyword: each type, the borders of lengths and numbers, and numbers that equal one another.
VALUES: list[Any] = [
    *("", "pass", "fail", "must", "inf", "cell", "kernel", "clip_by_norm", "float32", "text"),
    *(None, True, False, 0, 1, -1, 0.0, 1.0, -0.5, 1e300, [], [1], {}, {"a": None}),
]
NAMES = [*SCHEMA["properties"], "unknown"]


def compile_cells() -> Check:
    """Return the check of cells."""
    check = compile_schema(SCHEMA)
    assert check is not None
    return check


CHECK = compile_cells()


@given(
    changed=st.dictionaries(st.sampled_from(NAMES), st.sampled_from(VALUES), max_size=4),
    removed=st.sets(st.sampled_from(NAMES), max_size=1),
)
def test_accepted_cells_are_valid(changed: dict[str, Any], removed: set[str]) -> None:
    cell = Cell(
        **dict.fromkeys(("subject", "rule", "case", "dtype", "detail"), "text"),
        operation="clip_by_norm",
        level="must",
        status="fail",
    ).to_json()
    members = {name: value for name, value in {**cell, **changed}.items() if name not in removed}

    assert FULL.is_valid(members) or not CHECK(members)


@pytest.mark.parametrize("name", NAMES)
def test_each_member_is_checked_as_json_schema_does(name: str, make_cell: Callable[..., Cell]) -> None:
    cell = make_cell(status="fail", detail="text").to_json()

    assert CHECK(cell)
    for value in VALUES:
        members = {**cell, name: value}
        assert CHECK(members) == FULL.is_valid(members), value


@pytest.mark.parametrize("schema", [{"const": 1}, {"enum": [0, None, "text"]}], ids=str)
def test_numbers_are_not_confused_with_truth(schema: dict[str, Any]) -> None:
    check = compile_schema(schema)

    assert check is not None
    accepted = [value for value in VALUES if check(value)]
    assert accepted
    assert all(jsonschema.Draft202012Validator(schema).is_valid(value) for value in accepted)


@pytest.mark.parametrize("value", [None, "text", [], 1])
def test_other_values_than_objects_are_not_cells(value: Any) -> None:
    assert not CHECK(value)


@pytest.mark.parametrize(
    "schema",
    [
        {"pattern": "a"},
        {"type": "object", "additionalProperties": {"type": "string"}},
        {"properties": {"a": {"maxLength": 1}}},
        {"type": "array", "items": {}},
        {"if": {"minLength": 1}, "then": {"const": "a"}},
        {"if": {"properties": {"a": {"not": {"const": 1}}}}, "then": {"type": "object"}},
        {"if": {"properties": {"a": {"const": "b"}}}, "then": {"type": "object"}},
    ],
    ids=str,
)
def test_other_schemas_are_left_to_json_schema(schema: dict[str, Any]) -> None:
    assert compile_schema(schema) is None
