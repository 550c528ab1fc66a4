"""Check the comparison of two runs: which answers are equal, and how severe the differences are."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from sample_runs import make_cell, make_finding, make_header, make_run

from gradclip_reports.difference import Compared, Side, choose_entry_points, choose_on_meshes, compare
from gradclip_reports.difference_text import draw
from gradclip_reports.records import Run
from gradclip_spec.rules.questions import load_questions

CASES = ("first", "second")


def compare_with_right(*answers: tuple[str, str]) -> Compared:
    """Compare a right run with one that answers with these behaviours and severities."""
    cases = [f"norm.scaled-above/{name}/float32" for name in CASES]
    right = make_run(make_header(), [make_cell(case=case) for case in cases])
    wrong = [
        make_cell(case=case, status="fail", behaviour=behaviour)
        for case, (behaviour, _) in zip(cases, answers, strict=True)
    ]
    findings = [
        make_finding(cell, cause=f"cause-{number}", severity=severity)
        for number, (cell, (_, severity)) in enumerate(zip(wrong, answers, strict=True))
    ]
    other = replace(make_run(make_header(), wrong), findings=tuple(findings))
    return compare(Side("a", right, ("clip",)), Side("b", other, ("clip",)))


@pytest.mark.parametrize("severities", [("destroyed", "wrong"), ("wrong", "destroyed")])
def test_contrast_is_as_severe_as_its_worst_case(severities: tuple[str, str]) -> None:
    compared = compare_with_right(*(("all-nan", severity) for severity in severities))

    ((contrast,),) = [difference.contrasts for difference in compared.differences]
    assert (contrast.second, contrast.severity) == ("the gradients become NaN", "destroyed")


def test_severities_are_those_of_all_contrasts() -> None:
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
def test_example_names_the_call(given: object, told: str) -> None:
    compared = compare_with_right(("all-nan", "destroyed"), ("unchanged", "unclipped"))
    contrast = compared.differences[0].contrasts[0]
    cells = tuple(replace(cell, input=given) for cell in contrast.cells)
    asked = replace(compared.differences[0], contrasts=(replace(contrast, cells=cells),))

    text = draw(replace(compared, differences=(asked,)), "terminal", 200)

    assert told in text


class TestFormulas:
    """The table of both formulas, before the differences."""

    @pytest.fixture
    def compared(self) -> Compared:
        """Return the comparison of a plain formula with one that adds 1e-6 and knows one order of the norm only."""
        sides = []
        for name, status in (("plain", "pass"), ("small", "documented")):
            header = make_header(name, "1.0", [("clip", "clip_by_global_norm")])
            orders = ["0x1p+0", "0x1p+1", "inf"] if name == "plain" else ["0x1p+1"]
            header = replace(header, subjects=[{**header.subjects[0], "norm_types": orders}])
            observed = {"observed": {"norm": {"dtype": "float64", "shape": [], "values": ["0x1p+0"]}}}
            cells = [
                make_cell(
                    operation="clip_by_global_norm",
                    rule=f"global-norm.{rule}",
                    case=f"global-norm.{rule}/one/float32",
                    status=status,
                    **observed,
                )
                for rule in ("scaled-above", "at-threshold")
            ]
            run = make_run(header, cells)
            if status != "pass":
                finding = make_finding(*cells, cause="eps-in-coefficient", parameters={"eps": 1e-6})
                run = replace(run, findings=(finding,))
            sides.append(Side(f"{name} 1.0", run, ("clip",)))
        return compare(sides[0], sides[1], questions=load_questions())

    def test_rows_hold_what_both_sides_do(self, compared: Compared) -> None:
        found = {row.label: row.answers for row in compared.formulas}

        assert found["Factor above the threshold"] == ("c / n", "c / (n + 1e-06)")
        assert found["At the threshold"] == ("unchanged", "times c / (n + 1e-06)")
        assert found["Orders of the norm"] == ("1, 2, inf", "2")
        assert found["Dtype of the norm"] == ("float64 for float32", "float64 for float32")
        assert "Results" not in found, "neither side was asked"

    @pytest.mark.parametrize("width", [60, 80, 120])
    def test_table_stands_first_and_fits_the_terminal(self, width: int, compared: Compared) -> None:
        lines = draw(compared, "terminal", width).splitlines()

        assert all(len(line) <= width for line in lines)
        assert [line.split()[0] for line in lines[:2]] == ["c:", "Factor"]
        assert "the same" in next(line for line in lines if line.startswith("Dtype of the norm"))

    def test_markdown_and_json_hold_the_table(self, compared: Compared) -> None:
        assert draw(compared, "markdown").startswith("| c: threshold, n: norm | plain 1.0 | small 1.0 |")
        formulas = json.loads(draw(compared, "json"))["formulas"]
        assert formulas[0] == {"what": "Factor above the threshold", "answers": ["c / n", "c / (n + 1e-06)"]}

    def test_sides_without_a_common_operation_have_no_table(self) -> None:
        runs = [
            make_run(make_header(entry_points=[("clip", operation)]), [make_cell(operation=operation)])
            for operation in ("clip_by_norm", "clip_by_value")
        ]

        compared = compare(Side("a", runs[0], ("clip",)), Side("b", runs[1], ("clip",)), questions=load_questions())

        assert compared.formulas == ()


def test_engines_with_other_meshes_are_compared_by_the_form_of_the_case() -> None:
    def make(mesh: str, axes: list[str], failing: str) -> Run:
        cells = [
            make_cell(
                subject=f"clip[{mesh}]",
                rule="norm.shards-as-whole",
                case=f"norm.shards-as-whole/split@{axis}:{mesh}/float32",
                status="fail" if axis == failing else "pass",
                behaviour="all-nan" if axis == failing else "right",
            )
            for axis in axes
        ]
        entry_point = make_header().subjects[0]
        names = ["clip", f"clip[{mesh}]"]
        header = replace(make_header(), subjects=[{**entry_point, "name": name} for name in names])
        run = make_run(header, [*cells, *(make_cell(case=f"norm.scaled-above/{n}/float32") for n in "abc")])
        return replace(
            run,
            findings=tuple(
                make_finding(cell, cause="nan", severity="destroyed") for cell in cells if cell.status == "fail"
            ),
        )

    first, second = make("shard=2", ["shard"], ""), make("shard=2,tensor=2", ["shard", "tensor"], "tensor")
    sides = [
        Side(name, run, (*choose_entry_points(run), *choose_on_meshes(run)))
        for name, run in zip("ab", (first, second), strict=True)
    ]
    compared = compare(*sides)

    assert [side.entry_points for side in sides] == [("clip", "clip[shard=2]"), ("clip", "clip[shard=2,tensor=2]")]
    ((contrast,),) = [difference.contrasts for difference in compared.differences]
    assert (contrast.first, contrast.second) == ("right, as the rule says", "the gradients become NaN")
    assert [cell.case.partition("@")[2] for cell in contrast.cells] == [
        "shard:shard=2/float32",
        "tensor:shard=2,tensor=2/float32",
    ]
    assert compared.same == 3
