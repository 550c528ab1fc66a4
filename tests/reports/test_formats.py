"""Check the matrix that all formats show, and that each format is valid and gives the same counts."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest
from fuzzing.drawings import check_differences, check_drawings
from sample_runs import make_cell, make_header, make_run

from gradclip_reports.failures import group_failures
from gradclip_reports.junit import TAGS
from gradclip_reports.markdown import draw_markdown
from gradclip_reports.markup import escape_markdown
from gradclip_reports.matrix import build_matrix
from gradclip_reports.records import Run
from gradclip_reports.render import render
from gradclip_reports.statuses import CELL_STATUSES, SPOILING, STATUSES
from gradclip_reports.values import format_value


def test_statuses_that_fail_a_run_are_worse_than_others() -> None:
    spoiling = [status.spoils for status in STATUSES.values()]

    assert list(STATUSES)[-1] == "pass"
    assert spoiling == sorted(spoiling, reverse=True)
    assert {name for name in CELL_STATUSES if STATUSES[name].spoils} == {"error", "crash", "timeout", "fail"}


def test_signs_differ_without_colour() -> None:
    assert len({status.glyph for status in STATUSES.values()}) == len(STATUSES)
    assert len({status.emoji for status in STATUSES.values()}) == len(STATUSES)
    assert all(len(status.glyph) == 1 for status in STATUSES.values())


class TestMatrix:
    def test_one_run_has_a_column_for_each_entry_point(self, torch_run: Run) -> None:
        matrix = build_matrix([torch_run])

        assert [column.name for column in matrix.columns] == [item["name"] for item in torch_run.header.subjects]
        by_norm, by_value = matrix.tables
        assert [column.number for column in by_norm.columns] == [1, 2, 3, 4]
        assert [column.number for column in by_value.columns] == [5, 6]

    def test_several_runs_have_a_column_each(self, several_runs: list[Run]) -> None:
        matrix = build_matrix(several_runs)

        names = [(column.name, column.version) for column in matrix.columns]
        assert names == [("torch", "2.13.0"), ("tensorflow", "2.21.0"), ("paddle", "3.3.1")]
        by_norm = next(table for table in matrix.tables if table.operation == "clip_by_norm")
        assert all(row.tallies[0] is None for section in by_norm.sections for row in section.rows)

    def test_themes_and_rules_keep_the_order_of_the_records(self) -> None:
        def run(*rules: tuple[str, str]) -> Run:
            return make_run(
                make_header(),
                [make_cell(rule=f"norm.{rule}", case=f"norm.{rule}/x/float32", theme=theme) for theme, rule in rules],
            )

        runs = [run(("zero", "b"), ("formula", "c")), run(("zero", "b"), ("formula", "a"))]
        (table,) = build_matrix(runs).tables

        found = [(section.theme, [row.label for row in section.rows]) for section in table.sections]
        assert found == [("zero", ["b"]), ("formula", ["c", "a"])]


class TestFailures:
    def test_failures_are_grouped_by_rule_entry_point_and_status(self) -> None:
        cells = [
            make_cell(case=f"norm.scaled-above/{number}/float32", status=status)
            for number, status in enumerate(["fail", "pass", "crash", "fail", "documented"])
        ]
        crashed, failed = group_failures([make_run(make_header(), cells)])

        assert (crashed.status.value, crashed.cells) == ("crash", (cells[2],))
        assert (failed.status.value, failed.cells, failed.first) == ("fail", (cells[0], cells[3]), cells[0])

    def test_entry_points_are_grouped_only_if_they_fail_alike(self) -> None:
        entry_points = [(name, "clip_by_norm") for name in ("a", "b", "c")]
        details = {"a": "It is half.", "b": "It is half.", "c": "It is NaN."}
        cells = [make_cell(subject=name, status="fail", detail=details[name]) for name, _ in entry_points]
        groups = group_failures([make_run(make_header(entry_points=entry_points), cells)])

        assert [group.entry_points for group in groups] == [{"a": 1, "b": 1}, {"c": 1}]


class TestRender:
    def test_unknown_format_is_refused(self, small_run: Run) -> None:
        with pytest.raises(ValueError, match="no format 'pdf': choose one of terminal, json, markdown"):
            render([small_run], "pdf")

    def test_report_without_a_run_is_refused(self) -> None:
        with pytest.raises(ValueError, match="no run to report"):
            render([], "json")


class TestJunit:
    def test_counts_agree_with_the_tests_and_with_the_records(self, several_runs: list[Run], small_run: Run) -> None:
        runs = [*several_runs, small_run]
        root = ElementTree.fromstring(render(runs, "junit"))
        expected: Counter[str] = Counter(error=sum(len(run.footer.not_run) for run in runs))
        for run in runs:
            for name, count in run.footer.counts.items():
                expected[TAGS[name]] += count

        assert int(root.attrib["tests"]) == len(root.findall(".//testcase")) == sum(run.footer.planned for run in runs)
        for attribute, tag in (("failures", "failure"), ("errors", "error"), ("skipped", "skipped")):
            assert int(root.attrib[attribute]) == len(root.findall(f".//{tag}")) == expected[tag] > 0
            suites = root.findall("testsuite")
            assert sum(int(suite.attrib[attribute]) for suite in suites) == expected[tag]

    def test_skipped_test_says_why(self, small_run: Run) -> None:
        (skipped,) = ElementTree.fromstring(render([small_run], "junit")).findall(".//skipped")

        assert skipped.attrib["message"] == "unsupported: No bfloat16 here."

    def test_tests_of_the_statuses_that_fail_a_run_fail(self) -> None:
        assert set(TAGS) == set(STATUSES)
        assert {name for name, tag in TAGS.items() if tag in ("failure", "error")} == SPOILING


class TestSummary:
    def test_counts_and_cells(self, several_runs: list[Run], small_run: Run) -> None:
        for runs in ([small_run], several_runs, [*several_runs, small_run]):
            document = json.loads(render(runs, "json"), parse_constant=pytest.fail)
            places = sum((Counter(place["counts"]) for rule in document["rules"] for place in rule["cells"]), Counter())
            columns = sum((Counter(column["counts"]) for column in document["columns"]), Counter())

            assert places == columns == Counter(document["counts"])
            assert document["planned"] == columns.total() == sum(run.footer.planned for run in runs)
            assert document["passed"] == sum(run.footer.counts["pass"] for run in runs)
            assert not document["as_expected"]
            listed = [(cell.pop("run"), cell) for cell in document["cells"]]
            assert listed == [
                (number, cell.to_json())
                for number, run in enumerate(runs)
                for cell in run.cells
                if cell.status != "pass"
            ]


class TestMarkdown:
    def test_small_run(self, small_run: Run) -> None:
        text = draw_markdown([small_run], failures=False)

        assert text == (
            "| adapter | framework | Python | platform | date (UTC) | suite | passed | all cells |\n"
            "|---|---|---|---|---|---|---|---|\n"
            "| torch | torch 2.13.0 | 3.11.9 | Linux x86\\_64 | 2026-11-21 | 0.1.0 | 2 of 5 "
            "| ❌&nbsp;1 🚫&nbsp;1 ➖&nbsp;1 ✅&nbsp;2 |\n"
            "\n"
            "|  | entry point | passed | all cells |\n"
            "|---|---|---|---|\n"
            "| 1 | `clip` | 2 of 5 | ❌&nbsp;1 🚫&nbsp;1 ➖&nbsp;1 ✅&nbsp;2 |\n"
            "\n"
            "<details open><summary><code>clip_by_norm</code>: 2 rules</summary>\n"
            "\n"
            "| rule | level | 1 |\n"
            "|---|---|---|\n"
            "| scaled-above | must | ❌&nbsp;1 ➖&nbsp;1 ✅&nbsp;2 |\n"
            "| identity-below |  | 🚫&nbsp;1 |\n"
            "\n"
            "</details>\n"
            "\n"
            "❌ fail: breaks a rule, and nothing documents it; 🚫 not-run: planned, and did not run; "
            "➖ unsupported: cannot be tested; ✅ pass: agrees with the rule; "
            "blank: no case of this rule in this column.\n"
        )

    def test_failures_and_missing_cells_are_listed(self, small_run: Run) -> None:
        text = draw_markdown([small_run])

        assert "❌ fail: <code>norm.scaled-above</code> (must), torch" in text
        assert "- observed: `[[0.6, nan]]`" in text
        assert "🚫 **1 cell did not run** of `clip`: norm.identity-below (1)." in text


class TestHostileTexts:
    """Check that no text in any field of a record acts as markup or as a control character in a report."""

    def test_no_report_lets_a_text_act(self, hostile_run: Run) -> None:
        for runs in ([hostile_run], [hostile_run, hostile_run]):
            check_drawings(runs)

    def test_no_comparison_lets_a_text_act(self, hostile_run: Run) -> None:
        right = [replace(cell, status="pass", behaviour="agrees") for cell in hostile_run.cells]

        check_differences(make_run(hostile_run.header, right), hostile_run)

    @pytest.mark.parametrize(
        ("text", "escaped"),
        [
            ("- x", r"\- x"),
            ("1. x", r"1\. x"),
            ("=== ", r"\=== "),
            ("&lt;b&gt;", r"\&lt;b\&gt;"),
            ("3.11.9", "3.11.9"),
            ("a\n\nb", "a  b"),
        ],
    )
    def test_markdown_of_a_text(self, text: str, escaped: str) -> None:
        assert escape_markdown(text) == escaped

    def test_number_beyond_float64_is_shown_unchanged(self) -> None:
        assert format_value({"dtype": "float32", "shape": [1], "values": ["0x1p+99999"]}) == "float32[1] [0x1p+99999]"


class TestReadable:
    @pytest.mark.parametrize(
        ("value", "text"),
        [
            ((0.1).hex(), "0.1"),
            ("-0x0.0p+0", "-0.0"),
            ("0x1.8p+1 apples", "0x1.8p+1 apples"),
            (["inf", (2.0).hex(), None, True, 3], "[inf, 2.0, null, true, 3]"),
            (list(range(100)), "[0, 1, 2, 3, 4, 5, 6, 7, ... 100 in all]"),
            ({"norm": (1.5).hex(), "gradients": []}, "{norm: 1.5, gradients: []}"),
            ("two\nlines\x07", "two lines\\x07"),
            ({"dtype": "float32", "shape": [2], "values": ["0x1.99999ap-4", "nan"]}, "float32[2] [0.1, nan]"),
            ({"dtype": "float16", "shape": [], "values": ["0x1.998p-4"]}, "float16[] [0.1]"),
            ({"dtype": "float64", "shape": [1], "values": ["0x1.99999ap-4"]}, "float64[1] [0.10000000149011612]"),
            ({"dtype": "float32", "shape": [1], "values": ["0x1p+1000"]}, f"float32[1] [{2.0**1000!r}]"),
            ({"dtype": "int64", "shape": [1]}, "int64[1] []"),
            (
                {"dtype": "float64", "shape": [99], "values": ["0x1p+0"] * 16, "elements": 99},
                f"float64[99] [{'1.0, ' * 8}... 99 in all]",
            ),
            (
                {"gradients": [{"array": None}, {"array": {"dtype": "float64", "shape": [0], "values": []}}]},
                "{gradients: [null, float64[0] []]}",
            ),
        ],
    )
    def test_value_is_shown_readably(self, value: Any, text: str) -> None:
        assert format_value(value) == text
