"""Check the scripts that reproduce the published findings without the suite, and the comparison of what they print."""

from __future__ import annotations

import ast
import dataclasses
import shutil
import sys
from pathlib import Path

import pytest

PUBLISHED = Path(__file__).parents[2] / "reports" / "published"
sys.path.insert(0, str(PUBLISHED))

import reproduce  # noqa: E402 - it lies beside the records

FRAMEWORKS = reproduce.list_frameworks()


def test_each_framework_with_findings_has_scripts() -> None:
    records = {path.name.removesuffix(".jsonl.gz") for path in PUBLISHED.glob("*.jsonl.gz")}

    # The reference has no findings.
    assert {name for name in FRAMEWORKS if "@" not in name} == records - {"numpy"}
    assert {name.partition("@")[0] for name in FRAMEWORKS} <= records


@pytest.mark.exam(sample=0)
@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_each_published_finding_has_a_script(framework: str) -> None:
    assert reproduce.list_gaps(framework) == []


def test_gap_on_either_side_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    first, *others = reproduce.read_reproductions("thinc")
    stray = dataclasses.replace(first, cause="hangs")
    monkeypatch.setattr(reproduce, "read_reproductions", lambda framework: [*others, stray])

    assert reproduce.list_gaps("thinc") == [
        f"thinc: no script reproduces the finding {first.cause!r}",
        "thinc: the record has no finding 'hangs'",
    ]


def test_crash_or_hang_by_chance_may_be_missing_from_a_record() -> None:
    assert reproduce.list_ends_by_chance("paddle") == {"crashes", "hangs"}
    assert reproduce.list_ends_by_chance("thinc") == set()


#: Some libraries clip within a training loop or in a graph only, and some clips need groups of processes. Their scripts
#: are longer.
LONGER = {
    "deepspeed": 30,
    "eps-beside-maximum-in-fleet": 16,
    "fastai": 13,
    "hangs": 16,
    "jittor": 12,
    "onnxruntime-training": 20,
    "transformers": 30,
    "unexplained-in-fleet": 16,
}


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_scripts_have_ten_lines_and_do_not_use_the_suite(framework: str) -> None:
    for one in reproduce.read_reproductions(framework):
        most = LONGER.get(one.path.stem, LONGER.get(framework.partition("@")[0], 10))
        assert len([line for line in one.code.splitlines() if line.strip()]) <= most, one.path
        assert "gradclip" not in one.code, one.path
        if one.path.suffix == ".py":
            assert any(isinstance(node, ast.Call) for node in ast.walk(ast.parse(one.code))), one.path


def test_printed_lines_are_compared_with_alternatives() -> None:
    assert reproduce.is_printed(("[0.0]", "nan | inf"), ["[0.0]", "inf"])
    assert not reproduce.is_printed(("[0.0]", "nan | inf"), ["[0.0]", "1.0"])
    assert not reproduce.is_printed(("[0.0]",), ["[0.0]", "1.0"])


@pytest.mark.parametrize(
    ("code", "lines"),
    [
        ("print(1.5)", ["1.5"]),
        ("print(1.5)\nraise ValueError('no')", ["1.5", "exit code 1: ['ValueError: no']"]),
        ("import os, signal\nos.kill(os.getpid(), signal.SIGKILL)", [reproduce.DEATH]),
    ],
    ids=["prints", "raises", "dies"],
)
def test_script_runs_in_its_own_process(tmp_path: Path, code: str, lines: list[str]) -> None:
    script = tmp_path / "script.py"
    script.write_text(code, encoding="utf-8")

    assert reproduce.run_script(sys.executable, script) == lines


@pytest.mark.skipif(shutil.which("node") is None, reason="Node is missing")
def test_node_runs_a_script_in_javascript_with_packages_of_the_environment(tmp_path: Path) -> None:
    library = tmp_path / "node_modules" / "library"
    library.mkdir(parents=True)
    (library / "index.js").write_text("exports.two = 2;", encoding="utf-8")
    script = tmp_path / "elsewhere" / "script.js"
    script.parent.mkdir()
    script.write_text('console.log(require("library").two);', encoding="utf-8")

    assert reproduce.run_script(str(tmp_path / "bin" / "python"), script) == ["2"]


def test_comment_of_a_script_in_javascript_says_what_it_prints() -> None:
    (one,) = reproduce.read_reproductions("tensorflow-js")

    assert (one.cause, one.prints) == ("value-nan-lost", ("[ 0.5, 0.5 ]", "[ NaN, 1 ]"))
    assert one.code.startswith("const tf = require")


def test_script_without_its_output_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "torch").mkdir()
    (tmp_path / "torch" / "raises.py").write_text("print(1)", encoding="utf-8")
    monkeypatch.setattr(reproduce, "FOLDER", tmp_path)

    with pytest.raises(ValueError, match=r"raises\.py: give a name"):
        reproduce.read_reproductions("torch")
