"""Check that the score of the exam names every fault."""

from __future__ import annotations

import json

import pytest
import score
from clippers import WRONG
from clippers.right import RIGHT


@pytest.fixture
def whole() -> score.Outcomes:
    """Return an exam in which everything went well, in the form that pytest reports."""
    outcomes = score.Outcomes()
    tests = [(score.WRONG_TEST, wrong.name) for wrong in WRONG]
    tests += [(score.RIGHT_TEST, score.get_name(right)) for right in RIGHT]
    tests += [(score.CANARY_TEST, canary) for canary in score.CANARIES]
    outcomes.found = {("file.py::" + test, name): ("passed", {}) for test, name in tests}
    outcomes.found["file.py::" + score.MADE_TEST, "one"] = ("passed", {})
    batch = json.dumps({"counts": {"caught": 2}, "survivors": {}})
    outcomes.found["file.py::" + score.BATCH_TEST, "0"] = ("passed", {"batch": batch})
    outcomes.found["test_hosts.py::test_one", "hangs"] = ("passed", {})
    outcomes.found["test_canaries.py::test_other", ""] = ("passed", {})
    return outcomes


def test_list_of_faults_is_empty_if_the_exam_passes(whole: score.Outcomes) -> None:
    result = score.score(whole)

    assert whole.list_not_run() == []
    assert score.list_faults(result) == []
    assert result["wrong"]["caught"] == len(WRONG)
    assert result["generated"]["proven"] == 2
    assert "Wrong here" not in score.write_markdown(result)


@pytest.mark.parametrize(
    ("test", "name", "says"),
    [
        (f"file.py::{score.WRONG_TEST}", WRONG[0].name, f"not caught: {WRONG[0].name}"),
        (f"file.py::{score.RIGHT_TEST}", score.get_name(RIGHT[0]), "blamed, though right"),
        (f"file.py::{score.MADE_TEST}", "one", "blamed, though right: one"),
        (f"file.py::{score.CANARY_TEST}", "numpy-identity", "a green canary: numpy-identity"),
        ("test_hosts.py::test_one", "hangs", "not recorded as expected: hangs"),
        ("test_canaries.py::test_other", "", "a test that failed: test_canaries.py::test_other"),
    ],
)
def test_each_fault_is_listed(whole: score.Outcomes, test: str, name: str, says: str) -> None:
    whole.found[test, name] = ("failed", {})

    (fault,) = score.list_faults(score.score(whole))

    assert says in fault
    assert f"**Wrong here:** {fault}" in score.write_markdown(score.score(whole))


def test_rule_that_catches_no_clipper_is_listed(whole: score.Outcomes) -> None:
    for wrong in WRONG:
        if wrong.rule == "value.bounds":
            whole.found[f"file.py::{score.WRONG_TEST}", wrong.name] = ("failed", {})

    assert "a rule that catches no clipper: value.bounds" in score.list_faults(score.score(whole))


def test_uncaught_generated_clippers_are_a_fault(whole: score.Outcomes) -> None:
    batch = json.dumps({"counts": {"survives": 2}, "survivors": {"a": "b"}})
    whole.found["file.py::" + score.BATCH_TEST, "1"] = ("passed", {"batch": batch})
    whole.found["file.py::" + score.BATCH_TEST, "0"] = ("passed", {"batch": batch})

    assert score.list_faults(score.score(whole)) == ["only 0 of 4 generated wrong clippers were caught"]


def test_missing_test_is_listed(whole: score.Outcomes) -> None:
    del whole.found[f"file.py::{score.WRONG_TEST}", WRONG[0].name]
    del whole.found["test_hosts.py::test_one", "hangs"]

    assert whole.list_not_run() == [WRONG[0].name, "test_hosts.py"]
