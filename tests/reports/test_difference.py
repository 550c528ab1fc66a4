"""Check the comparison of two runs: which answers are equal, and how severe the differences are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from gradclip_reports.difference import Compared, Side, compare
from gradclip_reports.difference_text import draw
from gradclip_reports.records import Cell, Finding, Header, Run

CASES = ("first", "second")


def make_finding(cell: Cell, cause: str, severity: str) -> Finding:
    """Return a finding that explains one cell. All findings answer the same question."""
    return Finding(
        cause=cause,
        title=f"shows {cause}",
        question="What happens?",
        severity=severity,
        why="Because.",
        parameters={},
        cells={cell.subject: [cell.case]},
        rules={cell.rule: 1},
        statuses={cell.status: 1},
        example={"subject": cell.subject, "case": cell.case, "detail": "It is."},
    )


@pytest.fixture
def compare_with_right(
    make_cell: Callable[..., Cell], make_header: Callable[..., Header], make_run: Callable[..., Run]
) -> Callable[..., Compared]:
    """Return a function that compares a right run with one that answers with these behaviours and severities."""

    def find(*answers: tuple[str, str]) -> Compared:
        cases = [f"norm.scaled-above/{name}/float32" for name in CASES]
        right = make_run(make_header(), [make_cell(case=case) for case in cases])
        wrong = [
            make_cell(case=case, status="fail", behaviour=behaviour)
            for case, (behaviour, _) in zip(cases, answers, strict=True)
        ]
        findings = [
            make_finding(cell, f"cause-{number}", severity)
            for number, (cell, (_, severity)) in enumerate(zip(wrong, answers, strict=True))
        ]
        other = replace(make_run(make_header(), wrong), findings=tuple(findings))
        return compare(Side("a", right, ("clip",)), Side("b", other, ("clip",)))

    return find


@pytest.mark.parametrize("severities", [("destroyed", "wrong"), ("wrong", "destroyed")])
def test_contrast_is_as_severe_as_its_worst_case(
    severities: tuple[str, str], compare_with_right: Callable[..., Compared]
) -> None:
    compared = compare_with_right(*(("all-nan", severity) for severity in severities))

    ((contrast,),) = [difference.contrasts for difference in compared.differences]
    assert (contrast.second, contrast.severity) == ("the gradients become NaN", "destroyed")


def test_severities_are_those_of_all_contrasts(compare_with_right: Callable[..., Compared]) -> None:
    compared = compare_with_right(("all-nan", "destroyed"), ("unchanged", "unclipped"))

    (difference,) = compared.differences
    assert difference.severity == "destroyed"
    assert compared.severities == {"destroyed", "unclipped"}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (None, "float32: case norm.scaled-above/first/float32: "),
        ({"gradients": [], "options": {"clip_norm": 1.0}}, "float32: no gradients, clip_norm 1.0: "),
        ({"gradients": [{"values": [3.0, 4.0]}], "options": {}}, "float32: gradients [3.0, 4.0]: "),
    ],
)
def test_example_names_the_call(given: object, told: str, compare_with_right: Callable[..., Compared]) -> None:
    compared = compare_with_right(("all-nan", "destroyed"), ("unchanged", "unclipped"))
    contrast = compared.differences[0].contrasts[0]
    cells = tuple(replace(cell, input=given) for cell in contrast.cells)
    asked = replace(compared.differences[0], contrasts=(replace(contrast, cells=cells),))

    text = draw(replace(compared, differences=(asked,)), "terminal", 200)

    assert told in text
