"""Write the pages about the results of a release: questions with their picture, matrix of rules, and versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from gradclip_conformance.known.failures import depends_on_chance
from gradclip_conformance.run.environments.recipes import read_recipes
from gradclip_reports.counting import count_rules
from gradclip_reports.markdown import draw_markdown
from gradclip_reports.markup import draw_markdown_table, escape_markdown
from gradclip_reports.records import Run, read_runs
from gradclip_reports.site.catalogue import Catalogue
from gradclip_reports.site.measured import read_accuracy, read_speeds
from gradclip_reports.site.questions import STANDINGS, Answer, answer_run, write_answer
from gradclip_reports.versions import draw_versions
from gradclip_spec.rules.questions import load_questions
from picture import draw_picture

__all__ = ["draw_table", "write_pages"]

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
The records of older versions hold fewer cases. They are in the archive of the release. A finding is one way to
differ from the rules. Errors that differ only in their messages share a row.

| | |
|---|---|
| ● | the version shows the finding |
| – | it was asked cases of the finding, and does not show it |
| | it was asked none of them |

A finding is shown *by chance* if the same calls give other answers in another run. Then it has no dates. Below each
table stand the rules with calls that two neighbouring versions answer differently.

{tables}
"""


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
