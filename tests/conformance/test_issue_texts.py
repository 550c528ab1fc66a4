"""Check the texts of issues: each shows the answer, the documentation, and a script that shows the fault."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from runs import run_command

from gradclip_reports.records import Run, read_runs

PUBLISHED = Path(__file__).parents[2] / "reports" / "published"

#: A function that negates the gradients for a negative threshold, and loses them if the squares overflow.
FUNCTION = '''
"""Clip."""
import numpy as np


def clip(grads, *, clip_norm):
    with np.errstate(all="ignore"):
        norm = np.sqrt(sum(np.sum(g * g) for g in grads))
        return [(g * min(1, {factor})).astype(g.dtype) for g in grads]
'''


@pytest.fixture(autouse=True)
def _in_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def record(name: str, factor: str) -> Path:
    """Check a function, and return the record."""
    Path("clips.py").write_text(FUNCTION.format(factor=factor), encoding="utf-8")
    options = ["--op", "clip_by_global_norm", "--dtype", "float32", "--rows", "0", "--rule", "*.scaled-above"]
    options += ["--rule", "*.negative-threshold-refused", "--rule", "*.overflow-of-squares"]
    done = run_command("check", "clips:clip", *options, "-o", name)
    assert done.exit_code == 1, done.output
    return Path(name)


@pytest.fixture(scope="module")
def checked(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return the record of a function that accepts negative thresholds. One run serves all tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("checked"))
        return record("new.jsonl", "clip_norm / norm").read_text(encoding="utf-8")


@pytest.fixture
def path(checked: str, tmp_path: Path) -> Path:
    """Return the path of this record in the folder of the test, beside the function."""
    (tmp_path / "clips.py").write_text(FUNCTION.format(factor="clip_norm / norm"), encoding="utf-8")
    (tmp_path / "new.jsonl").write_text(checked, encoding="utf-8")
    return Path("new.jsonl")


call = functools.partial(run_command, "repro")


def run_script(text: str) -> subprocess.CompletedProcess[str]:
    """Run the script in the text of an issue."""
    (script,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    return subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)


@pytest.mark.thorough(sample=0)
def test_text_shows_a_fault_without_the_suite(path: Path) -> None:

    done = call(path, "negative-threshold", "--issue")

    assert done.exit_code == 0, done.output
    assert done.stdout.startswith("# `clips:clip`: ")
    assert "- Expected: `an error`" in done.stdout
    assert "We found no sentence about this call." in done.stdout
    assert "- dtypes: float32" in done.stdout
    assert done.stdout.count("gradclip") == 1
    shown = run_script(done.stdout)
    assert shown.returncode == 1
    assert "AssertionError: expected: an error" in shown.stderr


def test_finding_is_named_by_its_number_or_its_cause(path: Path) -> None:
    (run,) = read_runs(path)

    for number, finding in enumerate(run.findings, start=1):
        by_number = call(path, number, "--issue")
        assert by_number.exit_code == 0, by_number.output
        assert by_number.stdout == call(path, finding.singles[0].cause, "--issue").stdout
        assert call(path, number).stdout.startswith('"""')
    assert f"has {len(run.findings)} findings, and no number 9" in call(path, "9", "--issue").output


def test_case_stands_for_its_finding(path: Path) -> None:
    case = "global-norm.negative-threshold-refused/minus-little/float32"

    assert f"as `{case}`" in call(path, case, "--issue").stdout
    refused = call(path, "global-norm.scaled-above/three-four-five/float32", "--issue")
    assert refused.exit_code == 2
    assert "belongs to no finding: its status is pass" in " ".join(refused.output.split())


@pytest.mark.thorough(sample=0)
def test_text_says_which_versions_give_the_wrong_answer(path: Path) -> None:
    new, old = path, record("old.jsonl", "clip_norm / norm if clip_norm >= 0 else 1 / 0")
    for one, version in ((old, "1.0"), (new, "2.0")):
        header, *others = one.read_text("utf-8").splitlines(keepends=True)
        framework = {"name": "clips", "version": version}
        one.write_text("".join([json.dumps({**json.loads(header), "framework": framework}), "\n", *others]), "utf-8")

    text = call(new, "negative-threshold", "--issue", "--other", old).stdout

    assert "- versions: since 2.0 (not in 1.0)" in text
    assert call(new, "negative-threshold", "--other", old).exit_code == 2


# The texts of these records quote a documentation or name a thread. The large records take ten seconds each.
@pytest.mark.parametrize(
    "name",
    [*(pytest.param(name, marks=pytest.mark.thorough(sample=0)) for name in ("torch", "tensorflow", "jax")), "thinc"],
)
def test_texts_of_published_findings(name: str) -> None:
    path = PUBLISHED / f"{name}.jsonl.gz"
    (run,) = read_runs(path)
    numbers = [number for number, one in enumerate(run.findings, start=1) if has_script(run, number)]

    for number in numbers[:3]:
        finding = run.findings[number - 1].singles[0]
        done = call(path, number, "--issue")
        assert done.exit_code == 0, done.output
        assert f"- {run.header.heading}" in done.stdout.replace("\\", "")
        if finding.quote:
            assert finding.quote.split()[0] in done.stdout.replace("\\", "")
        if finding.reason and (finding.url or "").startswith("https://"):
            assert f"A thread about this exists: {finding.url}" in done.stderr
    assert numbers


def has_script(run: Run, number: int) -> bool:
    """Return whether a script may show a finding: some are about more than the numbers of one call."""
    return run.findings[number - 1].singles[0].cause not in ("derivative-nan", "warning", "results-share-memory")
