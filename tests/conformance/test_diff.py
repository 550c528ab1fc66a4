"""Check that `gradclip diff` describes the differences between two records in sentences, the severest first."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mutants.steps import ByGlobalNorm
from runs import make_adapter, run_command, run_rules
from sample_runs import write_record_text

run = functools.partial(run_command, "diff")


def never_clip(grads: Any, *, clip_norm: float) -> Any:
    return list(grads)


def shrink(grads: Any, *, clip_norm: float) -> Any:
    return [grad * grad.dtype.type(0.37) for grad in grads]


def shrink_more(grads: Any, *, clip_norm: float) -> Any:
    return [grad * grad.dtype.type(0.11) for grad in grads]


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the records of a right function, of one that never clips, and of two that multiply by a constant."""
    folder = tmp_path_factory.mktemp("records")
    functions: dict[str, Callable[..., Any]] = {
        "right": ByGlobalNorm(),
        "never": never_clip,
        "shrunk": shrink,
        "shrunk-more": shrink_more,
    }
    paths = {}
    for name, function in functions.items():
        paths[name] = folder / f"{name}.jsonl"
        made = run_rules(
            make_adapter(function), "global-norm.scaled-above/*th*", "global-norm.single-tensor", name=name
        )
        paths[name].write_text(write_record_text([made]), encoding="utf-8")
    return paths


@pytest.mark.thorough(sample=0)
def test_difference_is_shown_with_question_answers_and_example(records: dict[str, Path]) -> None:
    result = run(records["right"], records["never"])

    assert result.exit_code == 0, result.output
    text = " ".join(result.stdout.split())
    assert re.search(r"1\. unclipped, \d+ cases: What happens above the threshold\?", text)
    assert ": right, as the rule says" in text
    assert ": the gradients come back unchanged" in text
    assert re.search(r"float32: gradients \[[-\d., e+]+\], clip_norm [\d.e+-]+: \S+ gives the right result", text)
    assert "Equal answers in " in text
    assert len(result.stdout.splitlines()) <= 40


def test_records_of_two_devices_are_told_apart_by_them(records: dict[str, Path], tmp_path: Path) -> None:
    paths = []
    for device in ("cpu", "cuda (a card)"):
        header, *cells = records["never"].read_text(encoding="utf-8").splitlines()
        members = json.loads(header)
        members["environment"]["device"] = device
        paths.append(tmp_path / f"{device[:4]}.jsonl")
        paths[-1].write_text("\n".join([json.dumps(members), *cells, ""]), encoding="utf-8")

    document = json.loads(run(*paths, "--format", "json").stdout)

    assert [name.partition(" (")[2] for name in document["names"]] == ["cpu)", "cuda (a card))"]


@pytest.mark.parametrize(
    ("options", "code", "says"),
    [
        (("--fail-on", "unclipped,wrong"), 1, "1. unclipped, "),
        (("--fail-on", "destroyed"), 0, "1. unclipped, "),
        (("--dtype", "float64"), 0, "Equal answers in 0 cases."),
        (("--format", "markdown"), 0, "### What happens above the threshold?"),
    ],
)
def test_options_choose_the_exit_code_and_what_is_shown(
    options: tuple[str, ...], code: int, says: str, records: dict[str, Path]
) -> None:
    result = run(records["right"], records["never"], *options)

    assert result.exit_code == code
    assert says in result.stdout


def test_unknown_entry_point_and_severity_are_refused(records: dict[str, Path]) -> None:
    entry_point = run(f"{records['right']}:nobody", records["never"])
    severity = run(records["right"], records["never"], "--fail-on", "terrible")
    adapter = run("torhc", records["never"])

    assert (entry_point.exit_code, severity.exit_code, adapter.exit_code) == (2, 2, 2)
    assert "has no entry point 'nobody'" in entry_point.stderr
    assert "There is no severity 'terrible'." in severity.stderr


def test_two_unexplained_answers_are_different(records: dict[str, Path]) -> None:
    result = run(records["shrunk"], records["shrunk-more"], "--format", "json")

    document = json.loads(result.stdout)
    contrast = document["differences"][0]
    assert all("no known cause explains" in answer for answer in contrast["answers"])
    assert len(contrast["cases"]) == 4
    observed = [json.dumps(answer) for answer in contrast["example"]["observed"]]
    assert observed[0] != observed[1]
    same = json.loads(run(records["shrunk"], records["shrunk"], "--format", "json").stdout)
    assert same["differences"] == []
    assert same["same"] > 0
    assert same["names"][0].endswith("(A)")
