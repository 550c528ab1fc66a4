"""Check that findings that contradict their record are refused, and unknown causes shown in their own words."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sample_runs import make_cell, make_finding, make_header, make_run, write_record_text

from gradclip_reports.brief import draw_brief
from gradclip_reports.counting import count_explained, count_rules
from gradclip_reports.finding_text import HEADING, list_lines, list_quotes, write_heading
from gradclip_reports.records import RecordError, Run, read_runs
from gradclip_reports.render import render
from gradclip_spec.rules.causes import load_causes


@pytest.fixture
def failed_run() -> Run:
    """Return a run of one failing cell, with a finding of an unknown cause."""
    expected = {"gradients": [{"dtype": "float32", "shape": [1], "values": ["0x1.99999ap-4"]}]}
    run = make_run(make_header(), [make_cell(status="fail", detail="It is black.", expected=expected)])
    example = {**make_finding(run.cells[0]).example, "expected": expected}
    return replace(run, findings=(make_finding(run.cells[0], example=example),))


@pytest.fixture
def combined_run() -> Run:
    """Return a run of two failing cells, each in a part of one finding."""
    cells = [
        make_cell(status="fail", detail="It is black.", case=f"value.bounds/{variant}/float32", rule="value.bounds")
        for variant in ("white", "rye")
    ]
    run = make_run(make_header(), cells)
    parts = tuple(
        make_finding(cell, title=f"burns {cell.case.split('/')[1]}", reason="It is too hot.") for cell in run.cells
    )
    whole = make_finding(*run.cells, parameters={}, parts=parts)
    return replace(run, findings=(whole,))


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"cells": {"nobody": ["a/b/c"]}}, "which the run does not have"),
        ({"rules": {"other.rule": 1}}, "counts disagree"),
        ({"statuses": {"known": 1}}, "counts disagree"),
        ({"cause": ""}, "violates its schema"),
        ({"parameters": {"list": [1]}}, "violates its schema"),
    ],
)
def test_finding_that_contradicts_the_cells_is_refused(
    failed_run: Run, changes: dict[str, Any], says: str, write_record: Callable[[str], Path]
) -> None:
    run = replace(failed_run, findings=(make_finding(failed_run.cells[0], **changes),))

    with pytest.raises(RecordError, match=says):
        read_runs(write_record(write_record_text([run])))


def test_cell_in_two_findings_or_two_parts_is_refused(
    failed_run: Run, combined_run: Run, write_record: Callable[[str], Path]
) -> None:
    (finding,), (whole,) = failed_run.findings, combined_run.findings
    twice = {
        "which another finding explains already": replace(failed_run, findings=(finding, finding)),
        "whose parts do not hold each of its cells once": replace(
            combined_run, findings=(replace(whole, parts=(whole.parts[0], whole.parts[0])),)
        ),
    }

    for says, run in twice.items():
        with pytest.raises(RecordError, match=says):
            read_runs(write_record(write_record_text([run])))


def test_combined_finding_is_read_back_and_shows_its_parts(
    combined_run: Run, write_record: Callable[[str], Path]
) -> None:
    (read,) = read_runs(write_record(write_record_text([combined_run])))

    assert read.findings == combined_run.findings
    text = " ".join(draw_brief([read]).split())
    assert "rules kept 0 of 1 tested; 1 broken by 1 finding." in text
    for format_ in ("markdown", "junit", "json"):
        assert all(name in render([read], format_) for name in ("burns white", "burns rye")), format_
    assert all(f"part wrong: burns {name} (minutes = 2.5)" in text for name in ("white", "rye"))
    assert text.count("It is too hot.") == 2


def test_red_run_ends_with_its_worst_finding(failed_run: Run) -> None:
    text = draw_brief([failed_run])

    assert "rules kept 0 of 1 tested; 1 broken by 1 finding." in text
    block = text[text.index("✗ burns the toast (minutes = 2.5)\n") :]
    assert "why        Nobody can eat it." in block
    # Decimals are shown for reading, followed by the exact number.
    assert "0.1" in block
    assert "0x1.99999ap-4" in block
    assert block.index("Nobody can eat it.") < block.index("Not as expected.")


def test_mistake_of_the_adapter_is_shown_instead_of_a_finding(failed_run: Run) -> None:
    mistake = make_cell(
        case="norm.scaled-above/zero/float32", status="error", detail="The adapter itself failed: no bread"
    )

    text = draw_brief([replace(failed_run, cells=(*failed_run.cells, mistake))])

    assert "detail     The adapter itself failed: no bread" in text
    assert "Nobody can eat it." not in text


def test_green_run_takes_at_most_15_lines() -> None:
    cells = [
        make_cell(
            status="known",
            detail="Known: so it is.",
            rule="norm.bounds",
            case=f"norm.bounds/number-{number}/float32",
        )
        for number in range(30)
    ]
    run = make_run(make_header(), cells)

    text = draw_brief([replace(run, findings=tuple(map(make_finding, cells)))])

    # No line is wasted: findings that do not fail the run take the rest of the room.
    assert len(text.splitlines()) == 15
    assert "As expected." in text


def test_rules_are_counted_by_their_worst_cell() -> None:
    def make_rule(name: str, *statuses: str) -> list[Any]:
        return [
            make_cell(status=status, detail="x", rule=f"value.{name}", case=f"value.{name}/{number}/float32")
            for number, status in enumerate(statuses)
        ]

    cells = [
        *make_rule("kept", "pass", "quality", "unsupported"),
        *make_rule("documented", "pass", "documented"),
        *make_rule("broken", "documented", "fail"),
        *make_rule("known", "pass", "known"),
        *make_rule("not-asked", "unsupported", "unsupported"),
        *make_rule("recorded", "unspecified"),
    ]

    run = make_run(make_header(), cells)
    counts = count_rules([run])

    assert (counts.kept, counts.documented, counts.broken, counts.not_asked, counts.asked) == (1, 1, 2, 1, 4)
    assert counts.write_sentence() == (
        "rules kept 1 of 4 tested; 1 as documented; 2 broken by 0 findings; 1 could not be tested"
    )
    broken, documented = (
        make_finding(next(cell for cell in cells if cell.status == name)) for name in ("fail", "documented")
    )
    assert "2 broken by 1 of 2 findings" in count_rules([replace(run, findings=(broken, documented))]).write_sentence()


def test_finding_shows_the_phrase_of_each_entry_point() -> None:
    cells = [
        make_cell(
            subject=name, status="documented", detail="x", quote=f"{name} may burn it.", url=f"docstring of {name}"
        )
        for name in ("fry", "toast", "boil")
    ]
    run = make_run(make_header(), cells)
    finding = make_finding(*cells[:2], quote=cells[0].quote, url=cells[0].url)

    assert list_quotes(finding, cells) == [
        ("fry may burn it.", "docstring of fry"),
        ("toast may burn it.", "docstring of toast"),
    ]
    facts = list_lines(finding, run)
    assert [text for name, text in facts if name == "documented"] == [
        '"fry may burn it." (docstring of fry)',
        '"toast may burn it." (docstring of toast)',
    ]
    alone = list_lines(replace(finding, cells={"fry": [cells[0].case]}), run)
    assert [text for name, text in alone if name in ("documented", "see")] == ['"fry may burn it."', "docstring of fry"]


def test_explained_cells_are_counted() -> None:
    cells = [
        make_cell(status=status, detail="x", rule=f"value.{status}", case=f"value.{status}/one/float32")
        for status in ("pass", "unsupported", "unspecified", "fail", "known", "quality")
    ]
    run = make_run(make_header(), cells)
    known, unknown = (
        make_finding(cell, cause=cause) for cell, cause in zip(run.cells[3:5], ("raises", "unexplained"), strict=True)
    )

    # One of the cells is in no finding.
    assert count_explained([replace(run, findings=(known, unknown))]) == (3, 1)
    document = json.loads(render([replace(run, findings=(known, unknown))], "json"))
    assert document["explained"] == {"differing": 3, "explained": 1}


@pytest.mark.parametrize(
    ("title", "parameters", "heading"),
    [
        ("multiplies by one", {"eps": 1e-6, "effect": "no"}, "multiplies by one (eps = 1e-06)"),
        ("raises", {"error": "E", "text": "of any length"}, "raises (error = E)"),
        ("t" * 70, {"a": 1, "b": "too long for it"}, "t" * 70 + " (a = 1)"),
        ("t" * 78, {"a": 1}, "t" * 78),
        ("word " * 20, {}, "word " * 15 + "..."),
    ],
    ids=["short", "message", "one-fits", "none-fits", "long"],
)
def test_heading_is_one_line_with_the_parameters_that_fit(
    title: str, parameters: dict[str, object], heading: str, failed_run: Run
) -> None:
    assert write_heading(make_finding(failed_run.cells[0], title=title, parameters=parameters)) == heading


def test_title_of_each_cause_fits_a_heading() -> None:
    assert [cause.id for cause in load_causes().values() if len(cause.title) > HEADING] == []
