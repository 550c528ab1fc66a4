"""Check SARIF: the part of the standard that code scanning reads, a result for each finding, and safe locations."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import jsonschema
import pytest

from gradclip_reports.records import Cell, Finding, Header, Run
from gradclip_reports.render import render

HOSTILE = "a|`b`\n</script><script>\x1b[2J\u202e**x** {0} [x](javascript:y)"


def close_schema(required: list[str], **properties: Any) -> dict[str, Any]:
    """Return the schema of an object with these members and no others."""
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


#: The members of SARIF 2.1.0 that GitHub's code scanning requires, with the types that the standard gives them.
STRING = {"type": "string", "minLength": 1}
MESSAGE = close_schema(["text"], text=STRING, markdown=STRING)
LEVEL = {"enum": ["none", "note", "warning", "error"]}
BAG = {"type": "object", "properties": {"tags": {"type": "array", "uniqueItems": True, "items": STRING}}}
LOCATION = close_schema(
    ["physicalLocation"],
    physicalLocation=close_schema(
        ["artifactLocation", "region"],
        artifactLocation=close_schema(["uri"], uri={"type": "string", "pattern": r"^[A-Za-z0-9._~/%-]+$"}),
        region=close_schema(["startLine"], startLine={"type": "integer", "minimum": 1}),
    ),
)
RULE = close_schema(
    ["id", "shortDescription", "fullDescription", "help"],
    id=STRING,
    shortDescription=MESSAGE,
    fullDescription=MESSAGE,
    help=MESSAGE,
    defaultConfiguration=close_schema([], level=LEVEL),
    properties=BAG,
)
RESULT = close_schema(
    ["message", "locations", "ruleId", "partialFingerprints"],
    ruleId=STRING,
    ruleIndex={"type": "integer", "minimum": 0},
    level=LEVEL,
    message=MESSAGE,
    locations={"type": "array", "minItems": 1, "items": LOCATION},
    partialFingerprints={"type": "object", "additionalProperties": STRING},
)
DRIVER = close_schema(
    ["name", "rules"], name=STRING, version=STRING, rules={"type": "array", "uniqueItems": True, "items": RULE}
)
SARIF = close_schema(
    ["version", "runs"],
    version={"const": "2.1.0"},
    runs={
        "type": "array",
        "items": close_schema(
            ["tool", "results"],
            tool=close_schema(["driver"], driver=DRIVER),
            automationDetails=close_schema([], id=STRING),
            results={"type": "array", "items": RESULT},
            properties=BAG,
        ),
    },
    **{"$schema": STRING},
)


@pytest.fixture
def make_failing_run(
    make_cell: Callable[..., Cell], make_header: Callable[..., Header], make_run: Callable[..., Run]
) -> Callable[..., Run]:
    """Return a function that makes a run with two new findings, a known one, and an error without a finding."""

    def make(adapter: str = "./src/clips.py:clip", text: str = "gradients are lost") -> Run:
        cells = [
            make_cell(case=f"norm.scaled-above/{name}/float32", status=status)
            for name, status in (("one", "fail"), ("two", "fail"), ("three", "deviation"), ("four", "error"))
        ]

        def find(cause: str, number: int) -> Finding:
            cell = cells[number]
            return Finding(
                cause=cause,
                title=text,
                question="What comes back?",
                severity="rounding" if number else "destroyed",
                why=text,
                parameters={"eps": 1e-6 * number},
                cells={"clip": [cell.case]},
                rules={cell.rule: 1},
                statuses={cell.status: 1},
                example={"subject": "clip", "case": cell.case, "detail": text, "input": text}
                | {"expected": None, "observed": None},
            )

        findings = (find("lost", 0), find("rounded", 1), find("known", 2))
        return replace(make_run(make_header(adapter), cells), findings=findings)

    return make


def draw(*runs: Run, location: str = "") -> dict[str, Any]:
    """Write runs as SARIF, check the document against the schema, and return its only log."""
    document = json.loads(render(runs, "sarif", location=location))
    jsonschema.Draft202012Validator(SARIF).validate(document)
    (log,) = document["runs"]
    return dict(log)


def test_each_cause_is_a_rule_and_each_failing_finding_a_result(make_failing_run: Callable[..., Run]) -> None:
    log = draw(make_failing_run())
    rules = log["tool"]["driver"]["rules"]

    assert [rule["id"] for rule in rules] == ["lost", "rounded", "error.norm.scaled-above"]
    assert [(result["ruleId"], result["level"]) for result in log["results"]] == [
        ("lost", "error"),
        ("rounded", "warning"),
        ("error.norm.scaled-above", "error"),
    ]
    assert [rules[result["ruleIndex"]]["id"] for result in log["results"]] == [one["ruleId"] for one in log["results"]]
    assert len({result["partialFingerprints"]["primaryLocationLineHash"] for result in log["results"]}) == 3


def test_fingerprints_and_rules_of_two_equal_runs_agree(make_failing_run: Callable[..., Run]) -> None:
    first, second = draw(make_failing_run()), draw(make_failing_run(), make_failing_run(text="other words"))

    assert [rule["id"] for rule in first["tool"]["driver"]["rules"]] == [
        rule["id"] for rule in second["tool"]["driver"]["rules"]
    ]
    marks = [[result["partialFingerprints"] for result in log["results"]] for log in (first, second)]
    assert marks[1] == marks[0] * 2


@pytest.mark.parametrize(
    ("adapter", "location", "uri"),
    [
        ("./my_adapter.py", "", "my_adapter.py"),
        ("src/my clips.py:clip", "", "src/my%20clips.py"),
        ("torch", "torch/nn/utils/clip_grad.py", "torch/nn/utils/clip_grad.py"),
        ("a.b:clip", "src\\a\\b.py", "src/a/b.py"),
    ],
)
def test_location_is_the_file_that_was_checked_or_named(
    adapter: str, location: str, uri: str, make_failing_run: Callable[..., Run]
) -> None:
    (result, *_) = draw(make_failing_run(adapter), location=location)["results"]

    assert result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"] == uri


@pytest.mark.parametrize(
    ("adapter", "says"),
    [
        ("torch", "torch is not one. Name the file in your repository with --location"),
        ("package.module:clip", "is not one"),
        ("../clips.py", "not a path below the working directory"),
        ("/etc/clips.py:clip", "not a path below the working directory"),
        ("C:\\clips.py", "not a path below the working directory"),
    ],
)
def test_run_without_a_file_in_the_repository_is_refused(
    adapter: str, says: str, make_failing_run: Callable[..., Run]
) -> None:
    with pytest.raises(ValueError, match=says):
        render([make_failing_run(adapter)], "sarif")


def test_hostile_texts_have_no_markup(make_failing_run: Callable[..., Run]) -> None:
    log = draw(make_failing_run(text=HOSTILE), location=HOSTILE)

    for result in log["results"]:
        markdown = result["message"]["markdown"]
        assert "\x1b" not in markdown + result["message"]["text"]
        assert "\u202e" not in markdown + result["message"]["text"]
    heading = log["results"][0]["message"]["markdown"].splitlines()[0]
    assert r"\<script\>" in heading
    assert r"\[x\](javascript:y)" in heading
