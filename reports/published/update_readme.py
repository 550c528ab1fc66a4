"""Make `matrix.md` and the README's table from the published records; with `--check`, fail if one is stale."""

from __future__ import annotations

import sys
from pathlib import Path

from gradclip_reports.counting import count_rules
from gradclip_reports.markdown import draw_markdown
from gradclip_reports.markup import draw_markdown_table, escape_markdown
from gradclip_reports.records import Run, read_runs

HERE = Path(__file__).resolve().parent
README, MATRIX = HERE.parents[1] / "README.md", HERE / "matrix.md"
BEGIN, END = "<!-- matrix: begin", "<!-- matrix: end -->"
#: The adapters that both tables show, in this order.
ORDER = ("numpy", "torch", "paddle", "paddle-fluid", "tensorflow")
HEADING = """# All rules, all frameworks

`nox -s report` makes this page from the records beside it. [README.md](../../README.md) explains the signs.
"""


def read_published_runs() -> list[Run]:
    """Return the published runs in the order of the tables."""
    runs = [run for path in sorted(HERE.glob("*.jsonl.gz")) for run in read_runs(path)]
    runs = [run for run in runs if run.header.adapter in ORDER]
    return sorted(runs, key=lambda run: ORDER.index(run.header.adapter))


def summarise(runs: list[Run]) -> str:
    """Return the README's table: one row a framework, with the numbers of rules and of findings."""
    rows = [["framework", "date (UTC)", "rules tested", "kept", "as documented", "broken", "by findings"]]
    for run in runs:
        counts = count_rules([run])
        findings = ", ".join(f"{number} {severity}" for severity, number in counts.findings.items())
        numbers = [str(number) for number in (counts.asked, counts.kept, counts.documented, counts.broken)]
        rows.append([escape_markdown(run.header.heading), run.header.started[:10], *numbers, escape_markdown(findings)])
    return draw_markdown_table(rows)


def update_readme(readme: str, runs: list[Run]) -> str:
    """Return the README with the table of the runs between its markers."""
    before, begin, rest = readme.partition(BEGIN)
    comment, _, after = rest.partition("\n")
    _, end, after = after.partition(END)
    return f"{before}{begin}{comment}\n{summarise(runs).strip()}\n{end}{after}"


def main() -> int:
    """Write the README and the page, or compare them."""
    runs = read_published_runs()
    wanted = {
        README: update_readme(README.read_text(encoding="utf-8"), runs),
        MATRIX: HEADING + "\n" + draw_markdown(runs, failures=False),
    }
    for path, text in wanted.items():
        if "--check" in sys.argv[1:]:
            if not path.exists() or path.read_text(encoding="utf-8") != text:
                print(f"{path.name} does not show the records in reports/published/: run `nox -s report`.")
                return 1
        else:
            path.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
