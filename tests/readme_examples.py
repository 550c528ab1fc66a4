"""Run the Python examples of the README in an environment that has only the built wheel, and an empty folder.

`nox -s build` and `nox -s wheel` run this program. This is not a test module, because pytest would import the checkout
instead of the wheel.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

#: What the example that prints no comment must say.
FINDINGS = "Not as expected."


def main() -> None:
    """Run each example, and end with an error if one does not print what the page shows."""
    page = (ROOT / "README.md").read_text(encoding="utf-8")
    programs = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    for program in programs:
        shown = re.findall(r"^print.*# (.*)$", program, flags=re.MULTILINE) or [FINDINGS]
        with tempfile.TemporaryDirectory() as folder:
            done = subprocess.run(
                [sys.executable, "-c", program], cwd=folder, capture_output=True, text=True, check=False
            )
        missing = [line for line in shown if line not in done.stdout]
        if done.returncode or missing:
            sys.exit(f"{program}\nexits with {done.returncode}, without {missing}:\n{done.stdout}{done.stderr}")
    print(f"Python {sys.version.split()[0]}: {len(programs)} examples of the README print what it shows.")


if __name__ == "__main__":
    main()
