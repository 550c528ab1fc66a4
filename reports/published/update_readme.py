"""Make everything that shows the published records; with `--check`, fail if a part is stale.

These are `questions.md` and `questions.svg`, which the README shows, `matrix.md`, a summary of each record, the plots,
and the site. The site has hundreds of files, so it is packed into `site.zip`.
"""

from __future__ import annotations

import io
import sys
import tempfile
import zipfile
from collections.abc import Mapping
from pathlib import Path

from click.testing import CliRunner

from gradclip_conformance.cli import gradclip
from gradclip_conformance.known.pins import depends_on_chance
from gradclip_conformance.run.environments import read_recipes
from gradclip_reports.counting import count_rules
from gradclip_reports.markdown import draw_markdown
from gradclip_reports.markup import draw_markdown_table, escape_markdown
from gradclip_reports.records import Run, read_runs
from gradclip_reports.site.book import Book
from gradclip_reports.site.measured import read_accuracy, read_speeds
from gradclip_reports.site.picture import draw_picture, draw_table, frame_plot
from gradclip_reports.site.plots import draw_plots
from gradclip_reports.site.questions import STANDINGS, answer_run
from gradclip_reports.versions import draw_versions
from gradclip_spec.rules.questions import load_questions

HERE = Path(__file__).resolve().parent
README, MATRIX = HERE.parents[1] / "README.md", HERE / "matrix.md"
QUESTIONS, PICTURE = HERE / "questions.md", HERE / "questions.svg"
SUMMARIES, SITE = HERE / "summaries", HERE / "site.zip"
VERSIONS, OLDER = HERE / "versions.md", HERE / "older"
BEGIN, END = "<!-- matrix: begin", "<!-- matrix: end -->"
#: The time of every file in `site.zip`, the earliest that the format has. So equal sites are equal files.
TIME = (1980, 1, 1, 0, 0, 0)
#: The adapters that the tables and the site show, in this order.
ORDER = list(read_recipes())
#: The adapters in the README's picture. More columns would be too narrow to read there.
PICTURED = ("numpy", "torch", "paddle", "paddle-fluid", "tensorflow", "optax")
HEADING = """# All rules, all frameworks

`nox -s report` makes this page from the records beside it. [README.md](../../README.md) explains the signs.
"""
ABOUT = """# What frameworks do when they clip

`nox -s report` makes this page from the records, the accuracy and the benchmarks beside it. [A picture](questions.svg)
shows the most used frameworks. Each answer is about float32 unless the question names other dtypes. It is about the
clip by global norm if the framework has one. If entry points answer differently, the worst answer stands here, with the
number of entry points that give it.

| | |
|---|---|
{legend}

## Questions

{table}

{questions}

[Since when and until when](versions.md) each finding is shown, as far as older versions have a record.

## Rules

A *finding* is one way to differ from the rules. [All rules](matrix.md) are on a page of their own. The name of a
framework leads to its findings.

{counts}

## In pictures

{plots}

## The site

[site.zip](site.zip) holds the site of these records: unpack it, and open `index.html` in a browser. It has the findings
with examples and scripts, a page for each rule and each cause, and a comparison of any two frameworks.
"""
SINCE = """# Since when and until when

`nox -s report` makes this page from the records beside it and from those of older versions in `older/`. The latter hold
fewer cases. A finding is one way to differ from the rules. Errors that differ only in their messages share a row.

| | |
|---|---|
| ● | the version shows the finding |
| – | it was asked cases of the finding, and does not show it |
| | it was asked none of them |

A finding is shown *by chance* if the same calls give other answers in another run. Then it has no dates. Below each
table stand the rules with calls that two neighbouring versions answer differently.

{tables}
"""
SUMMARY = """# {heading}

`nox -s report` makes this page from [the record](../{record}). [The questions](../questions.md) compare the frameworks.

{text}
"""
PICTURE_LINK, PAGE_LINK = "reports/published/questions.svg", "reports/published/questions.md"
#: The README's picture, for those who do not see it.
ALT = "A table of 16 questions and the answers of {names}; the link leads to the table of all frameworks, as text."


def read_published_runs() -> list[Run]:
    """Return the published runs in the order of the tables."""
    runs = [run for path in sorted(HERE.glob("*.jsonl.gz")) for run in read_runs(path)]
    runs = [run for run in runs if run.header.adapter in ORDER]
    return sorted(runs, key=lambda run: ORDER.index(run.header.adapter))


def write_versions(runs: list[Run]) -> str:
    """Return the page that compares the versions of each framework."""
    older = [run for path in sorted(OLDER.glob("*.jsonl.gz")) for run in read_runs(path)]
    tables = []
    for run in runs:
        versions = [one for one in older if one.header.adapter == run.header.adapter]
        if versions:
            name, adapter = escape_markdown(run.header.framework["name"]), escape_markdown(run.header.adapter)
            heading = name if adapter == name.lower() else f"{name} ({adapter})"
            tables.append(f"## {heading}\n\n{draw_versions([run, *versions], depends_on_chance)}")
    return SINCE.format(tables="\n\n".join(tables))


def load_book() -> Book:
    """Return the questions and the published measurements."""
    accuracy, speeds = read_accuracy(HERE / "accuracy.json"), read_speeds(HERE / "benchmarks.json")
    return Book(load_questions(), accuracy=accuracy, speeds=speeds)


def write_pages(runs: list[Run]) -> dict[Path, str]:
    """Return the text of each page and picture but the README, by its path."""
    book = load_book()
    answers = [answer_run(run, book) for run in runs]
    pictured = choose_pictured(runs)
    plots = {HERE / f"{plot.id}.svg": plot for plot in draw_plots(runs, book)}
    page = ABOUT.format(
        legend="\n".join(f"| {glyph} | {meaning} |" for glyph, meaning in STANDINGS.values()),
        table=draw_table(book.questions, runs, answers),
        questions="\n".join(f"- *{one.short}*: {one.text} {one.why}" for one in book.questions),
        counts=count_results(runs),
        plots="\n\n".join(
            f"**{plot.title}** {escape_markdown(plot.caption)}\n\n![{plot.title}]({path.name})"
            for path, plot in plots.items()
        ),
    )
    return {
        QUESTIONS: page,
        PICTURE: draw_picture(book.questions, pictured, [answer_run(run, book) for run in pictured]),
        VERSIONS: write_versions(runs),
        MATRIX: HEADING + "\n" + draw_markdown(runs, failures=False),
        **{path: frame_plot(plot) for path, plot in plots.items()},
        **{SUMMARIES / f"{run.header.adapter}.md": write_summary(run) for run in runs},
    }


def choose_pictured(runs: list[Run]) -> list[Run]:
    """Return the runs in the README's picture."""
    return [run for run in runs if run.header.adapter in PICTURED]


def write_summary(run: Run) -> str:
    """Return the page of one record: the findings, worst first, and the folded table of rules."""
    heading, record = escape_markdown(run.header.heading), f"{run.header.adapter}.jsonl.gz"
    return SUMMARY.format(heading=heading, record=record, text=draw_markdown([run]).strip())


def count_results(runs: list[Run]) -> str:
    """Return the table of counts: one row a framework, with the numbers of rules and of findings."""
    rows = [["framework", "date (UTC)", "rules tested", "kept", "as documented", "broken", "by findings"]]
    for run in runs:
        counts = count_rules([run])
        findings = ", ".join(f"{number} {severity}" for severity, number in counts.findings.items())
        numbers = [str(number) for number in (counts.asked, counts.kept, counts.documented, counts.broken)]
        name = f"[{escape_markdown(run.header.heading)}](summaries/{run.header.adapter}.md)"
        rows.append([name, run.header.started[:10], *numbers, escape_markdown(findings)])
    return draw_markdown_table(rows)


def write_site() -> dict[str, bytes]:
    """Return the files of the site by their names, as `gradclip report` writes them."""
    with tempfile.TemporaryDirectory() as name:
        # The site shows frameworks in the order of their records.
        records = [str(path) for one in ORDER if (path := HERE / f"{one}.jsonl.gz").is_file()]
        result = CliRunner().invoke(gradclip, ["report", *records, "-o", name], catch_exceptions=False)
        if result.exit_code:
            sys.exit(result.output)
        folder = Path(name)
        return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def pack(files: Mapping[str, bytes]) -> bytes:
    """Return an archive of files."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, content in sorted(files.items()):
            archive.writestr(zipfile.ZipInfo(name, TIME), content, zipfile.ZIP_DEFLATED, 9)
    return stream.getvalue()


def unpack(path: Path) -> dict[str, bytes]:
    """Return the files in an archive. There are none if it is missing."""
    if not path.is_file():
        return {}
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def update_readme(readme: str, runs: list[Run]) -> str:
    """Return the README with the picture of the runs between its markers."""
    before, begin, rest = readme.partition(BEGIN)
    comment, _, after = rest.partition("\n")
    _, end, after = after.partition(END)
    names = escape_markdown(", ".join(run.header.heading for run in choose_pictured(runs)))
    picture = f"[![{ALT.format(names=names)}]({PICTURE_LINK})]({PAGE_LINK})"
    return f"{before}{begin}{comment}\n{picture}\n{end}{after}"


def find_stale(pages: Mapping[Path, str], site: Mapping[str, bytes]) -> list[str]:
    """Return the names of the files that do not show the records."""
    stale = [path for path, text in pages.items() if not path.exists() or path.read_text(encoding="utf-8") != text]
    # A summary without a record is left from a framework that is no longer published.
    stale += [path for path in SUMMARIES.glob("*") if path not in pages]
    # Another version of zlib may pack the same files into other bytes.
    return [path.name for path in (*stale, *([SITE] if unpack(SITE) != site else []))]


def main() -> int:
    """Write the README, the pages, the pictures and the site, or compare them."""
    runs = read_published_runs()
    pages = write_pages(runs) | {README: update_readme(README.read_text(encoding="utf-8"), runs)}
    site = write_site()
    stale = find_stale(pages, site)
    if "--check" in sys.argv[1:]:
        if stale:
            print(f"Stale: {', '.join(stale)}. To make them from the records in reports/published/, run: nox -s report")
        return int(bool(stale))
    SUMMARIES.mkdir(exist_ok=True)
    for path in SUMMARIES.glob("*"):
        path.unlink()
    for path, text in pages.items():
        path.write_text(text, encoding="utf-8")
    if SITE.name in stale:
        SITE.write_bytes(pack(site))
    print(f"Written: {', '.join(stale) or 'nothing new'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
