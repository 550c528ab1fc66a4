"""Put the matrix of the published records into the README; with `--check`, fail if it is stale."""

from __future__ import annotations

import sys
from pathlib import Path

from gradclip_reports.markdown import markdown
from gradclip_reports.records import read_runs

HERE = Path(__file__).resolve().parent
README = HERE.parents[1] / "README.md"
BEGIN, END = "<!-- matrix: begin", "<!-- matrix: end -->"
#: The adapters that the README shows, in this order.
ORDER = ("numpy", "torch", "paddle", "paddle-fluid", "tensorflow")


def matrix() -> str:
    """Return the matrix of all published runs."""
    runs = [run for path in sorted(HERE.glob("*.jsonl.gz")) for run in read_runs(path)]
    runs = [run for run in runs if run.header.adapter in ORDER]
    runs.sort(key=lambda run: ORDER.index(run.header.adapter))
    return markdown(runs, failures=False)


def updated(readme: str) -> str:
    """Return the README with the matrix of the published records between its markers."""
    before, begin, rest = readme.partition(BEGIN)
    comment, _, after = rest.partition("\n")
    _, end, after = after.partition(END)
    return f"{before}{begin}{comment}\n{matrix().strip()}\n{end}{after}"


def main() -> int:
    """Write the README, or compare it."""
    readme = README.read_text(encoding="utf-8")
    wanted = updated(readme)
    if "--check" in sys.argv[1:]:
        if wanted != readme:
            print("README.md does not show the records in reports/published/: run `nox -s report`.")
            return 1
        return 0
    README.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
