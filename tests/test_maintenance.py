"""Check that the files for maintainers agree with each other."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import textwrap
import tomllib
from pathlib import Path

import pytest
from frameworks import RECIPES

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
WORKFLOWS = ROOT / ".github" / "workflows"

# A source distribution does not contain the files for maintainers.
pytestmark = pytest.mark.skipif(not WORKFLOWS.is_dir(), reason="a checkout is missing")


def test_pre_commit_uses_the_versions_of_the_lint_session() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8")
    pinned = set(re.findall(r"[\w-]+==[\w.]+", hooks))

    assert pinned
    assert pinned <= set(PROJECT["dependency-groups"]["lint"])


def test_continuous_integration_covers_every_python_that_is_declared() -> None:
    declared = {
        found[1]
        for classifier in PROJECT["project"]["classifiers"]
        if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", classifier))
    }
    (matrix,) = re.findall(r"python: (\[.*\])", (WORKFLOWS / "ci.yml").read_text(encoding="utf-8"))

    assert set(re.findall(r"3\.\d+", matrix)) == declared


@pytest.mark.parametrize("workflow", ["ci.yml", "frameworks.yml", "release.yml"])
def test_actions_are_pinned_by_commit(workflow: str) -> None:
    used = re.findall(r"uses: (.*)", (WORKFLOWS / workflow).read_text(encoding="utf-8"))

    assert used
    assert [line for line in used if not re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v[\d.]+", line)] == []


def test_weekly_workflow_lists_every_framework_with_its_python(tmp_path: Path) -> None:
    text = (WORKFLOWS / "frameworks.yml").read_text(encoding="utf-8")
    script = textwrap.dedent(text.partition("        run: |\n")[2].partition("\n\n  adapter:")[0])
    output = tmp_path / "output"

    subprocess.run(
        [sys.executable, "-c", script], cwd=ROOT, env={**os.environ, "GITHUB_OUTPUT": str(output)}, check=True
    )

    name, _, value = output.read_text(encoding="utf-8").partition("=")
    assert name == "frameworks"
    found = {one["name"]: one["python"] for one in json.loads(value)}
    assert found == {name: recipe.python or "3.11" for name, recipe in RECIPES.items()}


def test_citation_names_the_version_that_is_released() -> None:
    (version,) = re.findall(r'^__version__ = "(.*)"$', (ROOT / "gradclip_spec/__init__.py").read_text("utf-8"), re.M)

    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


@pytest.mark.thorough(sample=0)
@pytest.mark.parametrize(("factor", "code", "says"), [("clip_norm / 5", 0, "1 of 1"), ("0.5", 1, "scaled-above")])
def test_action_writes_the_summary_and_fails_with_the_check(factor: str, code: int, says: str, tmp_path: Path) -> None:
    """Run the script of the action as a runner does, on a function that is right for norm 5, and on a wrong one."""
    text = (ROOT / "action.yml").read_text(encoding="utf-8")
    script = textwrap.dedent(text.rpartition("      run: |\n")[2])
    module = f"def clip(grads, *, clip_norm):\n    return [grad * grad.dtype.type({factor}) for grad in grads]\n"
    (tmp_path / "clipping.py").write_text(module, encoding="utf-8")
    options = "--op clip_by_norm --rule norm.scaled-above/three-four-five/float64"
    summary, record = tmp_path / "summary.md", tmp_path / "record.jsonl"
    given = {"PYTHON": sys.executable, "TARGET": "clipping:clip", "OPTIONS": options, "RECORD": str(record)}
    environment = {**os.environ, **given, "GITHUB_STEP_SUMMARY": str(summary)}

    done = subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == code, done.stderr
    assert says in summary.read_text(encoding="utf-8")
    assert record.is_file()
