"""Make the pages and pictures of the published records; with `--check`, fail if one is stale.

The pages are `questions.md` and `questions.svg`, which the README shows, and `matrix.md`.
"""

from __future__ import annotations

import sys
from pathlib import Path

from gradclip_reports.counting import count_rules
from gradclip_reports.markdown import draw_markdown
from gradclip_reports.markup import draw_markdown_table, escape_markdown
from gradclip_reports.records import Run, read_runs
from gradclip_reports.site.book import Book
from gradclip_reports.site.measured import read_accuracy, read_speeds
from gradclip_reports.site.picture import draw_picture, draw_table
from gradclip_reports.site.questions import STANDINGS, answer_run
from gradclip_spec.rules.questions import load_questions

HERE = Path(__file__).resolve().parent
README, MATRIX = HERE.parents[1] / "README.md", HERE / "matrix.md"
QUESTIONS, PICTURE = HERE / "questions.md", HERE / "questions.svg"
BEGIN, END = "<!-- matrix: begin", "<!-- matrix: end -->"
#: The adapters that both tables show, in this order.
ORDER = ("numpy", "torch", "paddle", "paddle-fluid", "tensorflow", "optax")
HEADING = """# All rules, all frameworks

`nox -s report` makes this page from the records beside it. [README.md](../../README.md) explains the signs.
"""
ABOUT = """# What frameworks do when they clip

`nox -s report` makes this page and [its picture](questions.svg) from the records, the accuracy and the benchmarks
beside it. Each answer is about float32 unless the question names other dtypes. It is about the clip by global norm if
the framework has one. If entry points answer differently, the worst answer stands here, with the number of entry points
that give it.

| | |
|---|---|
{legend}

## Questions

{table}

{questions}

## Rules

A *finding* is one way to differ from the rules. [All rules](matrix.md) are on a page of their own.

{counts}
"""
PICTURE_LINK, PAGE_LINK = "reports/published/questions.svg", "reports/published/questions.md"
#: The README's picture, for those who do not see it.
ALT = "A table of 16 questions and the answers of {names}; the link leads to the same table as text."


def read_published_runs() -> list[Run]:
    """Return the published runs in the order of the tables."""
    runs = [run for path in sorted(HERE.glob("*.jsonl.gz")) for run in read_runs(path)]
    runs = [run for run in runs if run.header.adapter in ORDER]
    return sorted(runs, key=lambda run: ORDER.index(run.header.adapter))


def load_book() -> Book:
    """Return the questions and the published measurements."""
    accuracy, speeds = read_accuracy(HERE / "accuracy.json"), read_speeds(HERE / "benchmarks.json")
    return Book(load_questions(), accuracy=accuracy, speeds=speeds)


def write_questions(runs: list[Run]) -> tuple[str, str]:
    """Return the page of the questions, and its picture."""
    book = load_book()
    answers = [answer_run(run, book) for run in runs]
    page = ABOUT.format(
        legend="\n".join(f"| {glyph} | {meaning} |" for glyph, meaning in STANDINGS.values()),
        table=draw_table(book.questions, runs, answers),
        questions="\n".join(f"- *{one.short}*: {one.text} {one.why}" for one in book.questions),
        counts=summarise(runs),
    )
    return page, draw_picture(book.questions, runs, answers)


def summarise(runs: list[Run]) -> str:
    """Return the table of counts: one row a framework, with the numbers of rules and of findings."""
    rows = [["framework", "date (UTC)", "rules tested", "kept", "as documented", "broken", "by findings"]]
    for run in runs:
        counts = count_rules([run])
        findings = ", ".join(f"{number} {severity}" for severity, number in counts.findings.items())
        numbers = [str(number) for number in (counts.asked, counts.kept, counts.documented, counts.broken)]
        rows.append([escape_markdown(run.header.heading), run.header.started[:10], *numbers, escape_markdown(findings)])
    return draw_markdown_table(rows)


def update_readme(readme: str, runs: list[Run]) -> str:
    """Return the README with the picture of the runs between its markers."""
    before, begin, rest = readme.partition(BEGIN)
    comment, _, after = rest.partition("\n")
    _, end, after = after.partition(END)
    names = escape_markdown(", ".join(run.header.heading for run in runs))
    picture = f"[![{ALT.format(names=names)}]({PICTURE_LINK})]({PAGE_LINK})"
    return f"{before}{begin}{comment}\n{picture}\n{end}{after}"


def main() -> int:
    """Write the README, the pages and the picture, or compare them."""
    runs = read_published_runs()
    page, picture = write_questions(runs)
    wanted = {
        QUESTIONS: page,
        PICTURE: picture,
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
