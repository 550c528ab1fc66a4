"""Check the program that runs on machines with a GPU: what it does if a part fails, hangs, or lacks its library."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

import gpu


def make_part(program: str, *, probe: str = "", seconds: float = 60, finds: bool = False) -> gpu.Part:
    return gpu.Part("a part", probe, [sys.executable, "-c", program], seconds, {"GRADCLIP_ANSWER": "42"}, finds=finds)


@pytest.mark.parametrize(
    ("part", "outcome", "detail"),
    [
        (make_part("print('3 passed in 1s')"), "held", "3 passed in 1s"),
        (make_part("import os; print(os.environ['GRADCLIP_ANSWER'], 'passed')"), "held", "42 passed"),
        (make_part("print('1 failed, 2 passed'); raise SystemExit(1)"), "did not hold", "1 failed, 2 passed"),
        (make_part("print('x: 9 of 9, 1 not as expected'); raise SystemExit(1)", finds=True), "differs", "x: 9 of 9"),
        (make_part("raise SystemExit(3)", finds=True), "did not hold", "exit code 3, see a-part.log"),
        (make_part("", probe="import no_such_library"), "not run", "No module named 'no_such_library'"),
        (make_part("import time; time.sleep(600)", seconds=0.5), "timed out", "after 0.5 s"),
    ],
)
def test_outcome_says_what_became_of_a_part(part: gpu.Part, outcome: str, detail: str, tmp_path: Path) -> None:
    result = gpu.run_part(part, tmp_path)

    assert result.outcome == outcome
    assert detail in result.detail


@pytest.mark.parametrize(("code", "expected"), [(0, 0), (1, 1)])
def test_program_writes_its_table_and_fails_only_if_a_part_does(
    code: int, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = [make_part(f"raise SystemExit({code})"), make_part("", probe="import no_such_library")]
    monkeypatch.setattr(gpu, "list_parts", lambda device, out, quick: parts)

    assert gpu.main(["--device", "cpu", "--out", str(tmp_path)]) == expected
    assert "not run" in capsys.readouterr().out
    document = json.loads((tmp_path / "results.json").read_text(encoding="utf-8"))
    assert [each["outcome"] for each in document["results"]][1] == "not run"
    assert "| a part | not run |" in (tmp_path / "results.md").read_text(encoding="utf-8")


def test_parts_take_ten_minutes_at_most(tmp_path: Path) -> None:
    parts = gpu.list_parts("cuda", tmp_path, False)

    together = [part.seconds for part in parts if not part.alone]
    assert max(together) + sum(part.seconds for part in parts if part.alone) <= 600
    assert {part.name for part in parts} >= {
        "tests of the reference on cupy",
        "suite on reference-jax",
        "suite on torch",
        "suite on Megatron Core",
    }
