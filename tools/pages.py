"""Write the pages about the results of a release: questions with their picture, matrix of rules, and versions."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from gradclip_conformance.known.failures import depends_on_chance
from gradclip_conformance.run.environments.recipes import read_recipes
from gradclip_reports.counting import count_rules
from gradclip_reports.markdown import draw_markdown
from gradclip_reports.markup import draw_markdown_table, escape_markdown
from gradclip_reports.records import Run, read_runs
from gradclip_reports.site.catalogue import Catalogue
from gradclip_reports.site.measured import read_accuracy, read_speeds
from gradclip_reports.site.questions import STANDINGS, Answer, answer_run, write_answer
from gradclip_reports.values import escape_line, shorten_text
from gradclip_reports.versions import draw_versions
from gradclip_spec.rules.questions import Question, load_questions

#: The adapters in the README's picture. More columns would be too narrow to read there.
PICTURED = ("numpy", "torch", "paddle", "paddle-fluid", "tensorflow", "optax")
#: The first lines of each page.
RELEASE = "These are the results of gradclip-spec {release}. `nox -s published` makes them at each release."
MATRIX = """# All rules, all frameworks

{release}
[README.md](../../README.md) explains the signs.
"""
QUESTIONS = """# What frameworks do when they clip

{release}
[A picture](questions.svg) shows the most used frameworks. Each answer is about float32 unless the question names other
dtypes. It is about the clip by global norm if the framework has one. What most entry points do
stands here, with the number of those that answer otherwise and the sign of their worst answer.

| | |
|---|---|
{legend}

## Questions

{table}

{questions}

[Since when and until when](versions.md) each finding is shown, as far as older versions have a record.

## Rules

A *finding* is one way to differ from the rules. [All rules](matrix.md) are on a page of their own. To see the findings
of a framework with examples and scripts, type `gradclip report reports/published -o site`, and open `site/index.html`.

{counts}
"""
VERSIONS = """# Since when and until when

{release}
The records of older versions are in the archive of the release. A finding is one way to differ from the rules.
Errors that differ only in their messages share a row.

| | |
|---|---|
| ● | the version shows the finding |
| – | it was asked cases of the finding, and does not show it |
| | it was asked none of them |

A finding is shown *by chance* if the same calls give other answers in another run. Then it has no dates. Below each
table stand the rules with calls that two neighbouring versions answer differently.

{tables}
"""

# The picture.

#: Sizes in pixels: the first column, the others, a line of text, and the margin.
FIRST, WIDTH, LINE, MARGIN = 250, 180, 17, 16
#: This many characters fit into the first column, and into the others.
FIRST_FITS, FITS = 36, 20
#: The greatest length of a name. Two lines of a column's head hold that many characters.
NAME = 40
#: Lines are never broken at this space.
NO_BREAK = "\u00a0"
COLOURS = {"broken": "#b3141d", "poor": "#8a4b00", "documented": "#0757b3", "right": "#116329"}
QUIET, PAPER, BAND = "#59636e", "#ffffff", "#f3f5f7"
#: Text stays text, for search and for those who do not see the picture; and equal results give equal files.
SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "gradclip-spec", "font.family": "sans-serif", "font.size": 11.5}


def write_pages(folder: Path) -> dict[str, str]:
    """Return the pages and the picture by their names, from the records and measurements in a folder.

    Raises
    ------
    ValueError
        If the records come from several versions of the suite.
    """
    order = list(read_recipes())
    runs = [run for name in order if (path := folder / f"{name}.jsonl.gz").is_file() for run in read_runs(path)]
    older = [run for path in sorted(folder.glob("older/*.jsonl.gz")) for run in read_runs(path)]
    releases = sorted({run.header.suite["version"] for run in (*runs, *older)})
    if len(releases) != 1:
        message = f"The records in {folder} come from several versions of gradclip-spec: {', '.join(releases)}."
        raise ValueError(message)
    release = RELEASE.format(release=releases[0])
    accuracy, speeds = read_accuracy(folder / "accuracy.json"), read_speeds(folder / "benchmarks.json")
    catalogue = Catalogue(load_questions(), accuracy=accuracy, speeds=speeds)
    pictured = [run for run in runs if run.header.adapter in PICTURED]
    return {
        "questions.md": _write_questions(runs, catalogue, release),
        "questions.svg": draw_picture(catalogue.questions, pictured, [answer_run(run, catalogue) for run in pictured]),
        "matrix.md": MATRIX.format(release=release) + "\n" + draw_markdown(runs, failures=False),
        "versions.md": VERSIONS.format(release=release, tables=_write_versions(runs, older)),
    }


def _write_questions(runs: Sequence[Run], catalogue: Catalogue, release: str) -> str:
    return QUESTIONS.format(
        release=release,
        legend="\n".join(f"| {glyph} | {meaning} |" for glyph, meaning in STANDINGS.values()),
        table=draw_table(runs, catalogue),
        questions="\n".join(
            f"- *{question.short}*: {question.text} {question.why}" for question in catalogue.questions
        ),
        counts=_count_results(runs),
    )


def draw_table(runs: Sequence[Run], catalogue: Catalogue) -> str:
    """Return the matrix of questions as a table in Markdown."""
    answers: list[Mapping[str, tuple[Answer, ...]]] = [answer_run(run, catalogue) for run in runs]
    rows = [["", *(escape_markdown(run.header.heading) for run in runs)]]
    for question in catalogue.questions:
        found = [answered[question.id] for answered in answers]
        cells = [f"{several[0].glyph} {write_answer(several)}" for several in found]
        rows.append([escape_markdown(question.short), *map(escape_markdown, cells)])
    return draw_markdown_table(rows)


def _count_results(runs: Sequence[Run]) -> str:
    """Return the table of counts: one row a framework, with the numbers of rules and of findings."""
    rows = [["framework", "date (UTC)", "rules tested", "kept", "as documented", "broken", "by findings"]]
    for run in runs:
        counts = count_rules([run])
        findings = ", ".join(f"{number} {severity}" for severity, number in counts.findings.items())
        numbers = [str(number) for number in (counts.asked, counts.kept, counts.documented, counts.broken)]
        rows.append([escape_markdown(run.header.heading), run.header.started[:10], *numbers, escape_markdown(findings)])
    return draw_markdown_table(rows)


def _write_versions(runs: Sequence[Run], older: Sequence[Run]) -> str:
    """Return the tables that compare the versions of each framework."""
    tables = []
    for run in runs:
        versions = [other for other in older if other.header.adapter == run.header.adapter]
        if versions:
            name, adapter = escape_markdown(run.header.framework["name"]), escape_markdown(run.header.adapter)
            heading = name if adapter == name.lower() else f"{name} ({adapter})"
            tables.append(f"## {heading}\n\n{draw_versions([run, *versions], depends_on_chance)}")
    return "\n\n".join(tables)


def draw_picture(
    questions: Sequence[Question], runs: Sequence[Run], answers: Sequence[Mapping[str, tuple[Answer, ...]]]
) -> str:
    """Return the matrix as SVG, without the questions that none of the runs answers, such as those about meshes."""
    questions = [one for one in questions if any(each[one.id][0].standing != "unknown" for each in answers)]
    rows = [
        [textwrap.wrap(question.short, FIRST_FITS), *(_wrap(write_answer(each[question.id])) for each in answers)]
        for question in questions
    ]
    heights = [12 + LINE * max(map(len, row)) for row in rows]
    width, top = 2 * MARGIN + FIRST + WIDTH * len(runs), MARGIN + 2 * LINE + 30
    height = top + sum(heights) + 3 * LINE
    with matplotlib.rc_context(SETTINGS):
        # matplotlib measures in inches, of 72 points in SVG.
        figure = Figure(figsize=(width / 72, height / 72), facecolor=PAPER)
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
        axes.axis("off")
        columns = [MARGIN + FIRST + WIDTH * number for number in range(len(runs))]
        for x, run in zip(columns, runs, strict=True):
            name = textwrap.wrap(_clean(run.header.framework["name"], NAME), FITS)[:2]
            axes.text(x, MARGIN + 14, "\n".join(name), weight="bold", va="top")
            axes.text(
                x, MARGIN + 14 + LINE * len(name), _clean(run.header.framework["version"], FITS), color=QUIET, va="top"
            )
        for number, (question, row) in enumerate(zip(questions, rows, strict=True)):
            if number % 2 == 0:
                axes.add_patch(Rectangle((MARGIN - 6, top), width - 2 * MARGIN + 12, heights[number], color=BAND))
            axes.text(MARGIN, top + 8, "\n".join(map(_clean, row[0])), va="top")
            for x, lines, answered in zip(columns, row[1:], answers, strict=True):
                first = answered[question.id][0]
                colour = COLOURS.get(first.standing, QUIET)
                axes.text(x, top + 8, first.glyph, color=colour, weight="bold", va="top")
                axes.text(x + 18, top + 8, "\n".join(lines), color=colour, va="top")
            top += heights[number]
        legend = f"{NO_BREAK * 3} ".join(f"{glyph} {meaning}" for glyph, meaning in STANDINGS.values())
        axes.text(MARGIN, top + LINE, legend, color=QUIET, va="top")
        note = (
            "c: the threshold; n: the norm; (✗ 1 of 5): one of five entry points answers otherwise, and breaks a rule"
        )
        axes.text(MARGIN, top + 2 * LINE, note, color=QUIET, va="top")
        stream = io.StringIO()
        headings = ", ".join(_clean(run.header.heading, NAME) for run in runs)
        metadata = {"Title": f"What {headings} do when they clip gradients", "Date": None}
        figure.savefig(stream, format="svg", metadata=metadata)
    return stream.getvalue()


def _wrap(words: str) -> list[str]:
    """Return the lines of an answer. A number and its unit, or a count of entry points, stay on one line."""
    together = r"(?<=\d) (?=of \d|ulp|million|passes)|(?<=[✗≈§✓○–]) (?=\d)|(?<= of) (?=\d)|(?<=million) (?=ulp)"
    joined = re.sub(together, NO_BREAK, _clean(words))
    return [line.replace(NO_BREAK, " ") for line in textwrap.wrap(joined, FITS)][:3] or [""]


def _clean(text: str, longest: int = 200) -> str:
    # matplotlib reads a text between two dollars as a formula.
    return shorten_text(escape_line(text), longest).replace("$", r"\$")
