"""Check the matrix of questions. Each answer is derived from cells, and its words come from the data."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from sample_runs import make_cell, make_finding, make_header, make_run

from gradclip_reports.records import RecordError, Run
from gradclip_reports.site.catalogue import Catalogue
from gradclip_reports.site.measured import read_accuracy, read_speeds
from gradclip_reports.site.questions import answer_run, write_answer
from gradclip_spec.rules.questions import load_questions, parse_questions

ENTRY_POINTS = [(name, "clip_by_global_norm") for name in ("f", "g", "h")]
ROW = {"subject": "f", "dtype": "float32", "size": 10**7, "elements": 0.5, "problem": ""}
SPEED = {"workload": "1 x 25,000,000", "dtype": "float32", "mode": "in place"}
FLOOR = {**SPEED, "peer": "memory floor (NumPy)", "ours": 1.0, "theirs": 0.5}
CLIP = {**SPEED, "peer": "torch clip_grad_norm_ (foreach)", "ours": 1.0, "theirs": 1.6}


def answer(
    question: str, rule: str, *cells: dict[str, Any], cause: str = "", group: str = "", **parameters: Any
) -> tuple[str, str]:
    """Return the standing and the words of an answer to cells of a rule."""
    made = [
        make_cell(
            **{"subject": "f", "operation": "clip_by_global_norm", "rule": f"global-norm.{rule}"}
            | {"case": f"global-norm.{rule}/case-{number}/float32"}
            | cell
        )
        for number, cell in enumerate(cells)
    ]
    run = make_run(make_header(entry_points=ENTRY_POINTS), made)
    differing = [cell for cell in made if cell.status not in ("pass", "unsupported")]
    if cause:
        finding = make_finding(*differing, cause=cause, parameters=parameters)
        if group:
            finding = replace(finding, cause=group, parameters={}, parts=(finding,))
        run = replace(run, findings=(finding,))
    answers = answer_run(run, Catalogue(load_questions()))[question]
    return answers[0].standing, write_answer(answers)


def test_each_question_has_words_for_a_right_answer() -> None:
    questions = load_questions()

    assert len({question.id for question in questions}) == len(questions)
    assert all(question.measure or question.causes for question in questions)
    assert all(any(words.right for words in question.answers) for question in questions)


@pytest.mark.parametrize(
    ("entry", "says"),
    [
        ('rules = ["no-such-rule"]', "no-such-rule"),
        ('rules = ["zero-gradient"]\ncauses = ["no-such-cause"]', "no-such-cause"),
        ('rules = ["zero-gradient"]\ncolour = "red"', "colour"),
        ("", "needs rules or a measure"),
        ('rules = ["zero-gradient"]\n[[question.answer]]\nright = true', "an answer of the question q"),
    ],
)
def test_malformed_question_is_refused_by_name(entry: str, says: str) -> None:
    text = f'[[question]]\nid = "q"\nshort = "s"\ntext = "t"\nwhy = "w"\n{entry}\n'

    with pytest.raises(ValueError, match="the question q") as refused:
        parse_questions(text)
    assert says in str(refused.value)


class TestAnswers:
    def test_parameters_of_a_finding_fill_the_words(self) -> None:
        given = answer("above", "scaled-above", {"status": "documented"}, cause="eps-in-coefficient", eps=1e-6)

        assert given == ("documented", "c / (n + 1e-06)")

    def test_part_of_a_finding_gives_the_words_of_its_cause(self) -> None:
        cell = {"status": "fail", "behaviour": "all-zero"}
        told = answer("overflow", "overflow-of-squares", {}, cell, cause="squares-overflow", group="arithmetic-limits")
        assert told == answer("overflow", "overflow-of-squares", {}, cell, cause="squares-overflow")
        assert told[0] == "broken"

    def test_case_on_a_mesh_answers_by_its_name_without_the_mesh(self) -> None:
        case = "global-norm.shards-as-whole/two-parts@all:replica=2,shard=2/float32"
        cell = {"case": case, "status": "fail", "behaviour": "other"}

        told = answer("copies", "shards-as-whole", cell, cause="copies-counted")

        assert told == ("broken", "once per copy")

    def test_right_cells_do_not_hide_an_error(self) -> None:
        cells = [
            {"case": f"global-norm.shards-as-whole/{name}/float32", "status": status}
            for name, status in (("uneven", "pass"), ("empty-part", "fail"))
        ]

        assert answer("uneven", "shards-as-whole", *cells, cause="rank-absent")[0] == "broken"

    def test_behaviour_gives_words_where_the_cause_has_none(self) -> None:
        cell = {"status": "fail", "behaviour": "all-nan"}

        assert answer("overflow", "overflow-of-squares", cell, cause="squares-overflow") == ("broken", "all NaN")

    def test_cell_of_another_question_is_left_out(self) -> None:
        cells = [{}, {"status": "documented", "behaviour": "other"}]

        assert answer("zero", "zero-gradient", *cells, cause="eps-in-coefficient") == ("right", "stay zero")

    @pytest.mark.parametrize(
        ("zeros", "standing", "words"),
        [
            ((), "right", "right"),
            (("h",), "right", "right (✗ 1 of 3)"),
            (("g", "h"), "broken", "all zero (✓ 1 of 3)"),
            (("f", "g", "h"), "broken", "all zero"),
        ],
    )
    def test_what_most_entry_points_do_stands_first(self, zeros: tuple[str, ...], standing: str, words: str) -> None:
        wrong = {"status": "fail", "behaviour": "all-zero"}
        cells = [{"subject": entry_point, **(wrong if entry_point in zeros else {})} for entry_point in ("f", "g", "h")]

        told = answer("overflow", "overflow-of-squares", *cells, cause="squares-overflow" if zeros else "")

        assert told == (standing, words)

    def test_worst_of_two_equally_frequent_answers_stands_first(self) -> None:
        cells = [{}, {"subject": "g", "status": "fail", "behaviour": "all-zero"}]

        told = answer("overflow", "overflow-of-squares", *cells, cause="squares-overflow")

        assert told == ("broken", "all zero (✓ 1 of 2)")

    def test_different_right_answers_are_joined(self) -> None:
        rules = [{"rule": "global-norm.in-place-written"}, {"rule": "global-norm.inputs-not-mutated", "subject": "g"}]

        assert answer("written", "", *rules) == ("right", "in place or new arrays")

    def test_unanswered_question_says_why(self) -> None:
        missing = {"status": "unsupported", "lacks": "interface"}

        assert answer("excluded", "excluded-untouched", missing) == ("unknown", "no such option")
        assert answer("excluded", "scaled-above", {}) == ("unknown", "not asked")
        assert answer("sharded", "scaled-above", {}) == ("unknown", "not asked")

    def test_only_the_variant_of_a_question_answers(self) -> None:
        rule = "negative-threshold-refused"
        case = f"global-norm.{rule}/minus-one/float32"
        cells = [
            {"status": "fail", "behaviour": "sign-flipped", "case": case},
            {"status": "fail", "behaviour": "all-nan", "subject": "g"},
        ]

        assert answer("negative-threshold", rule, *cells, cause="negative-threshold") == ("broken", "signs flip")

    def test_error_answers_only_where_nothing_else_does(self) -> None:
        error = {"status": "fail", "behaviour": "raises:TypeError"}

        assert answer("written", "in-place-written", {}, error, cause="raises") == ("right", "in place")
        assert answer("written", "in-place-written", error, cause="raises") == ("broken", "raises an error")

    def test_error_answers_before_causes_of_other_questions(self) -> None:
        rule = "global-norm.in-place-written"
        cells = [
            make_cell(subject="f", rule=rule, case=f"{rule}/{name}/float32", status="fail", behaviour=behaviour)
            for name, behaviour in (("first", "other"), ("second", "raises:TypeError"))
        ]
        run = make_run(make_header(entry_points=ENTRY_POINTS), cells)
        findings = [
            make_finding(cell, cause=cause) for cause, cell in zip(("wrong-dtype", "raises"), cells, strict=True)
        ]

        answers = answer_run(replace(run, findings=tuple(findings)), Catalogue(load_questions()))["written"]

        assert write_answer(answers) == "raises an error"

    def test_operation_that_answers_goes_before_one_that_cannot(self) -> None:
        rule = "norm.scaled-above"
        right = {"operation": "clip_by_norm", "rule": rule, "case": f"{rule}/one/float32"}
        unsupported = {"status": "unsupported", "lacks": "interface"}

        assert answer("above", "scaled-above", unsupported, right) == ("right", "c / n")


class TestMeasurements:
    @pytest.mark.parametrize(
        ("row", "told"),
        [
            ({"norm": 0.487}, ("right", "0.49 ulp")),
            ({"norm": 2123456.0}, ("poor", "2.1 million ulp")),
            ({"norm": None, "elements": 71.2}, ("poor", "71 ulp in results")),
            ({"norm": None, "elements": 1.5}, ("right", "1.5 ulp in results")),
            ({"norm": 1.5}, ("poor", "1.5 ulp")),
            ({"norm": "inf"}, ("poor", "inf ulp")),
            ({"norm": None, "problem": "no kernel"}, ("unknown", "not measured")),
        ],
    )
    def test_accuracy_answers_with_the_largest_error(
        self, row: dict[str, Any], told: tuple[str, str], torch_run: Run
    ) -> None:
        entry_point = torch_run.header.subjects[0]["name"]
        framework = {"adapter": "torch", "framework": "torch", "version": "2.13.0"}
        accuracy = [{**framework, "rows": [{**ROW, **row, "subject": entry_point}]}]

        (answer,) = answer_run(torch_run, Catalogue(load_questions(), accuracy=accuracy))["accuracy"]

        assert (answer.standing, answer.words) == told

    @pytest.mark.parametrize(
        ("adapter", "speeds", "words"),
        [
            ("torch", [FLOOR, CLIP], "3.2 passes"),
            # The fastest measurement of the memory counts.
            ("torch", [{**FLOOR, "peer": "memory floor (torch)", "theirs": 2.0}, FLOOR, CLIP], "3.2 passes"),
            # A clip in place goes before others.
            ("torch", [FLOOR, {**CLIP, "mode": "functional", "theirs": 4.0}, CLIP], "3.2 passes"),
            # The speed of the reference stands beside each measurement.
            ("numpy", [FLOOR], "2.0 passes"),
        ],
        ids=["one", "fastest", "in-place", "reference"],
    )
    def test_speed_answers_in_passes_over_the_memory(
        self, adapter: str, speeds: list[dict[str, Any]], words: str
    ) -> None:
        run = make_run(make_header(adapter), [make_cell()])

        (answer,) = answer_run(run, Catalogue(load_questions(), speeds=speeds))["speed"]

        assert (answer.standing, answer.words) == ("measured", words)

    @pytest.mark.parametrize(
        "text", ["[]", "{}", '{"frameworks": [1]}', '{"frameworks": [{"rows": []}]}', "[" * 100, "\x00", '{"a": NaN}']
    )
    def test_other_files_are_refused_by_name(self, text: str, tmp_path: Path) -> None:
        path = tmp_path / "accuracy.json"
        path.write_text(text, encoding="utf-8")

        with pytest.raises(RecordError, match=r"accuracy\.json is not a table"):
            read_accuracy(path)
        path.write_text(text.replace("[]", '[{"peer": 1}]'), encoding="utf-8")
        with pytest.raises(RecordError, match=r"accuracy\.json is not a table"):
            read_speeds(path)

    @pytest.mark.parametrize(
        ("row", "is_valid"),
        [
            ({}, True),
            ({"elements": "inf"}, True),
            ({"norm": None}, True),
            ({"elements": None}, False),
            ({"elements": "large"}, False),
            ({"elements": -1.0}, False),
            ({"elements": "nan"}, False),
            ({"elements": 1.7e308}, False),
            ({"size": 3.5}, False),
        ],
        ids=["numbers", "infinite", "no-norm", "no-elements", "text", "negative", "nan", "too-large", "size"],
    )
    def test_each_row_holds_distances(self, row: dict[str, Any], is_valid: bool, tmp_path: Path) -> None:
        path = tmp_path / "accuracy.json"
        framework = {"adapter": "torch", "framework": "torch", "version": "2.13.0"}
        table = {"frameworks": [{**framework, "rows": [{**ROW, "norm": 0.5, **row}]}]}
        path.write_text(json.dumps(table), encoding="utf-8")

        if is_valid:
            assert read_accuracy(path) == table["frameworks"]
        else:
            with pytest.raises(RecordError, match="row 1 has no valid member"):
                read_accuracy(path)

    @pytest.mark.parametrize("time", ["inf", "nan", -1.0, 1e306, None])
    def test_each_row_of_speeds_holds_times(self, time: Any, tmp_path: Path) -> None:
        path = tmp_path / "benchmarks.json"
        row = {**SPEED, "peer": "torch foreach", "ours": 0.5}
        path.write_text(json.dumps([{**row, "theirs": 0.5}, {**row, "theirs": time}]), encoding="utf-8")

        with pytest.raises(RecordError, match="row 2 has no valid member 'theirs'"):
            read_speeds(path)
