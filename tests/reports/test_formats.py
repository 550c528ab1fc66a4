"""Check that each format is valid, and that all formats give the same counts."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest
from fuzzing.drawings import check_differences, check_drawings
from sample_runs import make_cell, make_finding, make_header, make_run

from gradclip_reports.junit import TAGS
from gradclip_reports.markdown import draw_markdown
from gradclip_reports.markup import escape_markdown
from gradclip_reports.records import Run
from gradclip_reports.render import FORMATS, render
from gradclip_reports.statuses import STATUSES
from gradclip_reports.values import format_value


class TestRender:
    @pytest.mark.thorough(sample=6)
    @pytest.mark.parametrize("format", FORMATS)
    def test_every_format_of_one_and_of_several_runs(self, format: str, several_runs: list[Run]) -> None:
        for runs in (several_runs, several_runs[:1]):
            assert render(runs, format).endswith("\n")

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
            "|  | subject | passed | all cells |\n"
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


#: Texts that have a meaning to a terminal, to XML, to a table or to HTML.
HOSTILE = "a|`b`\\|c\n\n</details><script>\x1b[2J\u202eevil\u2028\x00\ufffe**x** &lt; | y"


class TestHostileTexts:
    """Check that no text in any field of a record acts as markup or as a control character in a report."""

    @pytest.fixture
    def hostile_run(self) -> Run:
        header = make_header(adapter=HOSTILE, version=HOSTILE, subjects=[(HOSTILE, "clip_by_norm")])
        header = replace(
            header,
            suite={"name": HOSTILE, "version": HOSTILE},
            environment={"python": HOSTILE, "platform": HOSTILE, HOSTILE: HOSTILE, "adapter": "forged"},
        )
        shown = {"dtype": HOSTILE, "shape": [HOSTILE], "values": [HOSTILE], HOSTILE: HOSTILE}
        fields = {"subject": HOSTILE, "rule": HOSTILE, "theme": HOSTILE, "dtype": HOSTILE, "behaviour": HOSTILE}
        fields |= {"detail": HOSTILE, "quote": HOSTILE, "url": HOSTILE}
        fields |= {"input": shown, "expected": HOSTILE, "observed": [shown]}
        cells = [
            make_cell(case=f"{HOSTILE}/{number}", status=status, **fields)
            for number, status in enumerate(["fail", "fail", "known", "documented", "unsupported"])
        ]
        run = make_run(header, cells, not_run=[(HOSTILE, f"{HOSTILE}/9")])
        texts = dict.fromkeys(("cause", "title", "question", "why", "quote", "reason", "url"), HOSTILE)
        return replace(run, findings=tuple(make_finding(cell, parameters={}, **texts) for cell in cells[:3]))

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


def test_tests_of_the_statuses_that_fail_a_run_fail() -> None:
    assert set(TAGS) == set(STATUSES)
    assert {name for name, tag in TAGS.items() if tag in ("failure", "error")} == {
        name for name, status in STATUSES.items() if status.spoils
    }
