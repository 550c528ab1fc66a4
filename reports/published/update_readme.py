"""Put the matrix of the published records between the markers of the README; `--check` fails when it is stale."""

from __future__ import annotations

import sys
from pathlib import Path

from gradclip_reports.markdown import markdown
from gradclip_reports.records import read_runs

HERE = Path(__file__).resolve().parent
README = HERE.parents[1] / "README.md"
BEGIN, END = "<!-- matrix: begin", "<!-- matrix: end -->"
#: The order in the README; what else is published comes after, by name.
ORDER = ("numpy", "torch", "paddle", "paddle-fluid", "tensorflow")


def matrix() -> str:
    """Return the matrix of all published runs."""
    runs = [run for path in sorted(HERE.glob("*.jsonl")) for run in read_runs(path)]
    runs = [run for run in runs if run.header.adapter in ORDER]
    runs.sort(key=lambda run: ORDER.index(run.header.adapter))
    return markdown(runs, failures=False)


def updated(readme: str) -> str:
    """Return the README with the matrix of today's records."""
    before, begin, rest = readme.partition(BEGIN)
    comment, _, after = rest.partition("\n")
    _, end, after = after.partition(END)
    return f"{before}{begin}{comment}\n{matrix().strip()}\n{end}{after}"


def main() -> int:
    """Write the README, or compare."""
    readme = README.read_text(encoding="utf-8")
    wanted = updated(readme)
    if "--check" in sys.argv[1:]:
        if wanted != readme:
            print("README.md is not made from the records in reports/published/: run `nox -s report`.")
            return 1
        return 0
    README.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
