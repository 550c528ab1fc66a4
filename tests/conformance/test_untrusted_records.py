"""Check that every verb that reads records refuses what it cannot trust, with a message and without a traceback."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from runs import run_command, run_rules
from sample_runs import write_record_text

from gradclip_adapters.plain import PlainFunction
from gradclip_reports.render import FORMATS

Lines = list[dict[str, Any]]

#: Each verb that reads a record, with the record, its case and a folder to write as `{0}`, `{1}` and `{2}`.
VERBS = [
    *(["summary", "{0}", "--format", name] for name in FORMATS),
    ["summary", "-v", "{0}"],
    *(["diff", "{0}", "{0}", "--format", name] for name in ("terminal", "markdown", "json")),
    ["repro", "{0}", "{1}"],
    ["expectations", "update", "{0}"],
    ["report", "{0}", "-o", "{2}"],
]
CASE = "norm.at-threshold/three-four-five/float32"


@pytest.fixture(scope="module")
def record() -> str:
    """Return the record of a function that returns half of the right result."""

    def clip(grads: list[Any], *, clip_norm: float) -> list[Any]:
        return [(grad * 0.5).astype(grad.dtype) for grad in grads]

    adapter = PlainFunction(clip, "clip_by_norm", dtypes=("float32",), name="clips.py:clip")
    return write_record_text([run_rules(adapter, "norm.at-*", name="clips.py:clip")])


@pytest.fixture
def lines(record: str) -> Lines:
    """Return the lines of the record, which a test may change."""
    lines = [json.loads(line) for line in record.splitlines()]
    assert [line["record"] for line in lines[-2:]] == ["finding", "footer"]
    return lines


def run(verb: list[str], path: Path) -> Result:
    """Run a verb on a record, and require that it ends without a traceback and without a control character."""
    result = run_command(*(word.format(path, CASE, path.parent / "site") for word in verb), color=True)
    assert "Traceback" not in result.output
    for text in (result.stdout, result.stderr):
        assert [character for character in text if not character.isprintable() and character != "\n"] == []
    return result


def write(lines: Lines, path: Path) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def break_off(lines: Lines) -> None:
    """Make a run that was interrupted before its last cell."""
    cell = next(line for line in reversed(lines) if line["record"] == "cell")
    lines.remove(cell)
    lines[:] = [line for line in lines if line["record"] != "finding"]
    footer = lines[-1]
    footer["counts"][cell["status"]] -= 1
    footer["counts"] = {name: count for name, count in footer["counts"].items() if count}
    footer |= {
        "finished": footer["finished"] - 1,
        "incomplete": True,
        "not_run": [[cell["subject"], cell["case"]]],
    }


#: A fault that only complete runs lack, and one that no record may have. tests/reports/test_records.py has the others.
FAULTS: dict[str, tuple[Callable[[Lines], object], str]] = {
    "incomplete": (break_off, r"the run of 'clips\.py:clip' was broken off: 1 of \d+ cells did not run"),
    "no footer": (lambda lines: lines.pop(), "has no footer: it was cut short"),
}


@pytest.mark.thorough(sample=6)
@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
@pytest.mark.parametrize("fault", FAULTS)
def test_record_that_cannot_be_trusted_is_refused_by_name(
    verb: list[str], fault: str, lines: Lines, tmp_path: Path
) -> None:
    spoil, says = FAULTS[fault]
    spoil(lines)

    result = run(verb, write(lines, tmp_path / "record.jsonl"))

    assert result.exit_code in (2, 3)
    assert "record.jsonl" in result.stderr
    assert re.search(says, result.stderr), result.stderr
    assert result.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["record.jsonl"]
