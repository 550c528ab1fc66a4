"""Check the matrix and the failures. No cell is hidden, and the worst status is shown."""

from __future__ import annotations

from collections import Counter

from sample_runs import make_cell, make_header, make_run

from gradclip_reports.failures import group_failures
from gradclip_reports.matrix import Tally, build_matrix
from gradclip_reports.records import Run
from gradclip_reports.statuses import CELL_STATUSES, STATUSES


class TestTally:
    def test_worst_first(self) -> None:
        tally = Tally(["pass", "unsupported", "pass", "fail", "known"])

        assert list(tally.counts.items()) == [("fail", 1), ("known", 1), ("unsupported", 1), ("pass", 2)]
        assert (tally.worst.value, tally.total, tally.passed) == ("fail", 5, 2)

    def test_statuses_that_fail_a_run_are_worse_than_others(self) -> None:
        spoiling = [status.spoils for status in STATUSES.values()]

        assert list(STATUSES)[-1] == "pass"
        assert spoiling == sorted(spoiling, reverse=True)
        assert {name for name in CELL_STATUSES if STATUSES[name].spoils} == {
            "error",
            "crash",
            "timeout",
            "fail",
        }

    def test_signs_differ_without_colour(self) -> None:
        assert len({status.glyph for status in STATUSES.values()}) == len(STATUSES)
        assert len({status.emoji for status in STATUSES.values()}) == len(STATUSES)
        assert all(len(status.glyph) == 1 for status in STATUSES.values())


class TestMatrix:
    def test_one_run_has_a_column_for_each_subject(self, torch_run: Run) -> None:
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

    def test_themes_and_rules_keep_the_order_of_the_record(self, torch_run: Run) -> None:
        (first, *_) = build_matrix([torch_run]).tables

        themes = [section.theme for section in first.sections]
        assert themes == ["formula", "exclusion", "structure", "zero", "nonfinite", "range", "arguments"]
        assert [row.label for row in first.sections[1].rows] == [
            "excluded-untouched",
            "excluded-not-counted",
            "all-excluded",
        ]

    def test_theme_is_one_section_for_several_runs(self) -> None:
        def run(*rules: tuple[str, str]) -> Run:
            return make_run(
                make_header(),
                [make_cell(rule=f"norm.{rule}", case=f"norm.{rule}/x/float32", theme=theme) for theme, rule in rules],
            )

        runs = [run(("formula", "a"), ("zero", "b")), run(("formula", "c"), ("zero", "b"))]
        (table,) = build_matrix(runs).tables

        found = [(section.theme, [row.label for row in section.rows]) for section in table.sections]
        assert found == [("formula", ["a", "c"]), ("zero", ["b"])]


class TestFailures:
    def test_groups_hold_every_cell_that_fails_the_run(self, several_runs: list[Run]) -> None:
        grouped = [cell for group in group_failures(several_runs) for cell in group.cells]
        spoiling = [cell for run in several_runs for cell in run.cells if STATUSES[cell.status].spoils]

        assert Counter(map(id, grouped)) == Counter(map(id, spoiling))

    def test_failures_are_grouped_by_rule_subject_and_status(self) -> None:
        cells = [
            make_cell(case=f"norm.scaled-above/{number}/float32", status=status)
            for number, status in enumerate(["fail", "pass", "crash", "fail", "documented"])
        ]
        crashed, failed = group_failures([make_run(make_header(), cells)])

        assert (crashed.status.value, crashed.cells) == ("crash", (cells[2],))
        assert (failed.status.value, failed.cells, failed.first) == ("fail", (cells[0], cells[3]), cells[0])

    def test_subjects_are_grouped_only_if_they_fail_alike(self) -> None:
        subjects = [(name, "clip_by_norm") for name in ("a", "b", "c")]
        details = {"a": "It is half.", "b": "It is half.", "c": "It is NaN."}
        cells = [make_cell(subject=name, status="fail", detail=details[name]) for name, _ in subjects]
        groups = group_failures([make_run(make_header(subjects=subjects), cells)])

        assert [group.subjects for group in groups] == [{"a": 1, "b": 1}, {"c": 1}]
