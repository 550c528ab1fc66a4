"""Check the contents of the wheel, and run the Python examples of the README with it.

`nox -s build` and `nox -s wheel` run this program in an environment that has only the built wheel. This is not a test
module, because pytest would import the checkout instead of the wheel.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from importlib.metadata import distribution
from pathlib import Path, PurePosixPath

README = Path(__file__).resolve().parents[1] / "README.md"
PACKAGES = {"gradclip_spec", "gradclip_conformance", "gradclip_adapters", "gradclip_reports"}

#: Patterns of data files. Each must match a file.
DATA = (
    *(f"{package}/py.typed" for package in sorted(PACKAGES)),
    "gradclip_spec/kernels/passes.cu",
    "gradclip_spec/rules/*.toml",
    "gradclip_adapters/environments.toml",
    "gradclip_adapters/claims/*.toml",
    "gradclip_adapters/schemas/*.json",
    "gradclip_adapters/launch.py",
    "gradclip_conformance/known/expectations/*.toml",
    "gradclip_conformance/known/schemas/*.json",
    "gradclip_conformance/run/schemas/*.json",
    "gradclip_conformance/skeleton/templates/adapter.py.txt",
    "gradclip_conformance/skeleton/templates/*.toml",
    "gradclip_conformance/skeleton/templates/workflow.yml",
    "gradclip_conformance/test_conformance.py",
    "gradclip_reports/schemas/*.json",
    "gradclip_reports/site/templates/*.html",
    "gradclip_reports/site/static/site.css",
    "gradclip_reports/site/static/site.js",
)

#: Suffixes of the files that belong in the wheel.
ENDINGS = {".py", ".cu", ".typed", ".toml", ".json", ".html", ".css", ".js", ".txt", ".yml"}


def find_problems() -> list[str]:
    installed = distribution("gradclip-spec")
    files = [PurePosixPath(str(file)) for file in installed.files or ()]
    # The installation adds byte code, and puts scripts outside of the packages.
    held = [file for file in files if file.suffix != ".pyc" and ".." not in file.parts]
    top = {file.parts[0] for file in held if not file.parts[0].endswith(".dist-info")}
    found = [f"nothing matches {pattern}" for pattern in DATA if not any(file.match(pattern) for file in held)]
    found += [f"{name} is missing at the top level" for name in sorted(PACKAGES - top)]
    found += [f"{name} does not belong at the top level" for name in sorted(top - PACKAGES)]
    found += [
        f"{file} does not belong in the wheel"
        for file in held
        if file.parts[0] in PACKAGES and file.suffix not in ENDINGS
    ]
    found += [f"{name} is not a package in the wheel" for name in sorted(PACKAGES) if not _is_installed(name)]
    if not any(file.match("*.dist-info/licenses/LICENSE") for file in files):
        found.append("the licence is missing")
    scripts = {entry.name for entry in installed.entry_points if entry.group == "console_scripts"}
    return found if scripts == {"gradclip"} else [*found, f"the scripts are {scripts} and not only gradclip"]


def _is_installed(name: str) -> bool:
    """Return whether a package comes from the installed distribution and not from a checkout."""
    module = __import__(name)
    return str(distribution("gradclip-spec").locate_file(name)) in str(module.__file__)


def run_examples() -> None:
    """Run each example in an empty folder, and end the program if one does not print what the page shows."""
    programs = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), flags=re.DOTALL)
    for program in programs:
        # The example that prints no comment checks a function that breaks rules.
        shown = re.findall(r"^print.*# (.*)$", program, flags=re.MULTILINE) or ["Not as expected."]
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False
            )
        missing = [line for line in shown if line not in done.stdout]
        if done.returncode or missing:
            sys.exit(f"{program}\nexits with {done.returncode}, without {missing}:\n{done.stdout}{done.stderr}")
    print(f"Python {sys.version.split()[0]}: {len(programs)} examples of the README print what it shows.")


if __name__ == "__main__":
    if found := find_problems():
        sys.exit("\n".join(found))
    print("The wheel holds all files that it needs, and no others.")
    run_examples()
