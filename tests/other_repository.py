"""Use the built wheel in another repository, as its CI would: green, red after a change, green by a recorded reason.

`nox -s build` runs this program in an environment that has only the wheel, pytest and PyYAML. This is not a test
module, because pytest would import the checkout instead of the wheel. The repository has a tiny framework and the
adapter of docs/tutorial/adapter.md. Each stage runs what `action.yml` runs, and the pytest door.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parents[1]

#: The known failures of version 1.0: what the tutorial says of tinyframe.
KNOWN = """
[[known]]
cause = "negative-threshold"
subjects = ["tinyframe.clip_gradients"]
reason = "A negative max_norm is not refused, and flips the signs."
url = "none found"
checked = "2026-11-27"
"""

#: The reason that is recorded for version 1.1.
REASON = """
[[known]]
cause = "not-clipped"
subjects = ["tinyframe.clip_gradients"]
reason = "Since 1.1, nothing is clipped; the next release mends it."
url = "none found"
checked = "2026-11-27"
"""

#: The rules that are asked: enough for both faults, and few enough for half a minute.
OPTIONS = "--dtype float32 --rule *.scaled-above --rule *.negative-threshold-refused --rule *.identity-below"


def read_programs() -> dict[str, str]:
    """Return the framework and the adapter of the tutorial, by the name of the file."""
    page = (ROOT / "docs" / "tutorial" / "adapter.md").read_text(encoding="utf-8")
    named = re.findall(r"[Ss]ave this as `(\w+\.(?:py|claims\.toml))`.*?```\w+\n(.*?)```", page, flags=re.DOTALL)
    return dict(named)


def run_action(folder: Path) -> tuple[int, str]:
    """Run the step of `action.yml` that checks. Return its exit code and the summary of the job."""
    steps = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))["runs"]["steps"]
    (script,) = (step["run"] for step in steps if step["name"] == "Check")
    summary = folder / "summary.md"
    summary.unlink(missing_ok=True)
    environment = {
        **os.environ,
        "PYTHON": sys.executable,
        "TARGET": "./my_adapter.py",
        "OPTIONS": OPTIONS,
        "RECORD": "gradclip.jsonl",
        "GITHUB_STEP_SUMMARY": str(summary),
    }
    done = subprocess.run(["bash", "-e", "-o", "pipefail", "-c", script], cwd=folder, env=environment, check=False)
    return done.returncode, summary.read_text(encoding="utf-8") if summary.exists() else ""


def run_pytest(folder: Path) -> int:
    """Run the pytest door, one test for each finding. Return its exit code."""
    named = ["--gradclip-adapter", "./my_adapter.py", "--gradclip-per", "finding"]
    command = [sys.executable, "-m", "pytest", "-q", "--pyargs", "gradclip_conformance", *named]
    return subprocess.run([*command, "-k", "negative-threshold or not-clipped"], cwd=folder, check=False).returncode


def expect(stage: str, folder: Path, code: int, words: str) -> None:
    """Run both doors, and end the program if their exit codes or the summary are not as expected."""
    found, summary = run_action(folder)
    tests = run_pytest(folder)
    told = f"{stage}: the action exits with {found}, and pytest with {tests}"
    if (found, tests) != (code, code) or words not in summary:
        sys.exit(f"{told}; expected {code} from both, and {words!r} in the summary:\n{summary}")
    print(f"{told}, as expected.")


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        programs = read_programs()
        for file, text in programs.items():
            (folder / file).write_text(text, encoding="utf-8")
        known = folder / "my_adapter.expectations.toml"
        known.write_text(KNOWN, encoding="utf-8")
        subprocess.run(["git", "init", "--quiet"], cwd=folder, check=True)
        expect("A known failure is recorded", folder, 0, "As expected")

        framework = programs["tinyframe.py"]
        changed = framework.replace('"1.0"', '"1.1"').replace("min(1.0, max_norm / (norm + 1e-6))", "1.0")
        (folder / "tinyframe.py").write_text(changed, encoding="utf-8")
        expect("The framework has changed", folder, 1, "gradients above the threshold come back unchanged")

        known.write_text(KNOWN + REASON, encoding="utf-8")
        expect("The reason is recorded", folder, 0, "As expected")


if __name__ == "__main__":
    main()
