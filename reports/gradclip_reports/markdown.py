"""Write the matrix as GitHub Markdown, for a README and for `$GITHUB_STEP_SUMMARY`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .counting import count_rules
from .failures import FailureGroup, group_failures, group_not_run, leave_out_findings, list_values
from .finding_text import list_lines, write_short_line
from .lines import Run
from .markup import draw_markdown_table, escape_html, escape_markdown, format_code, format_code_in_html
from .matrix import Matrix, Table, Tally, build_matrix
from .statuses import NOT_RUN, STATUSES
from .values import format_count, shorten_text

#: At most this many groups are shown. GitHub accepts a megabyte as the summary of a job. 50 groups take far less.
_FAILURES = 50

#: Longer texts are cut, because a framework's message may be a whole traceback.
_DETAIL_LENGTH = 4000


def draw_markdown(runs: Sequence[Run], *, failures: bool = True) -> str:
    """Return the report: first the findings, then folded tables. Without `failures`, return only open tables."""
    matrix = build_matrix(runs)
    blocks: list[str] = []
    if failures:
        as_expected = all(run.is_as_expected for run in runs)
        blocks.append("✅ **As expected.**" if as_expected else "❌ **Not as expected.**")
        blocks += [line for run in runs for line in _draw_findings(run)]
        blocks += _format_failures([leave_out_findings(run) for run in runs])
    blocks.append(_format_runs(runs))
    blocks += [_format_key(matrix)] if len(runs) == 1 else []
    blocks += [_format_table(table, is_open=not failures) for table in matrix.tables]
    blocks.append(_format_legend(matrix))
    return "\n\n".join(blocks) + "\n"


def _format_counts(tally: Tally) -> str:
    return " ".join(f"{STATUSES[name].emoji}&nbsp;{count}" for name, count in tally.counts.items())


def _format_runs(runs: Sequence[Run]) -> str:
    rows = [["adapter", "framework", "Python", "platform", "date (UTC)", "suite", "passed", "all cells"]]
    for run in runs:
        header, tally = run.header, build_matrix([run]).tally
        facts = [header.adapter, header.heading]
        facts += [header.environment["python"], header.environment["platform"], header.started[:10]]
        facts += [header.suite["version"], f"{tally.passed} of {tally.total}"]
        rows.append([*map(escape_markdown, facts), _format_counts(tally)])
    return draw_markdown_table(rows)


def _format_key(matrix: Matrix) -> str:
    rows = [["", "entry point", "passed", "all cells"]]
    for column in matrix.columns:
        passed = f"{column.tally.passed} of {column.tally.total}"
        rows.append([str(column.number), format_code(column.name, in_table=True), passed, _format_counts(column.tally)])
    return draw_markdown_table(rows)


def _format_table(table: Table, *, is_open: bool) -> str:
    versioned = any(column.version for column in table.columns)
    heads = [
        f"{escape_markdown(column.name)} {escape_markdown(column.version)}".rstrip()
        if versioned
        else str(column.number)
        for column in table.columns
    ]
    rows = [["rule", "level", *heads]]
    for section in table.sections:
        if section.theme:
            rows.append([f"**{escape_markdown(section.theme)}**", *[""] * (len(heads) + 1)])
        for row in section.rows:
            places = ["" if tally is None else _format_counts(tally) for tally in row.tallies]
            rows.append([escape_markdown(row.label), row.level, *places])
    count = sum(len(section.rows) for section in table.sections)
    title = f"<summary>{format_code_in_html(table.operation)}: {count} rules</summary>"
    return f"<details{' open' if is_open else ''}>{title}\n\n{draw_markdown_table(rows)}\n\n</details>"


def _format_legend(matrix: Matrix) -> str:
    shown = [STATUSES[name] for name in matrix.tally.counts]
    signs = [f"{status.emoji} {status.value}: {matrix.find_meaning(status)}" for status in shown]
    return "; ".join([*signs, "blank: no case of this rule in this column"]) + "."


def _draw_findings(run: Run) -> Iterator[str]:
    yield f"**{escape_markdown(run.header.heading)}**: {count_rules([run]).write_sentence()}."
    for finding in run.findings[:_FAILURES]:
        sign = "❌" if finding.spoils else "📌"
        title = f"<summary>{sign} {escape_html(write_short_line(finding))}</summary>"
        facts = [f"- {name}: {format_code(text)}" for name, text in list_lines(finding, run)]
        yield "\n".join([f"<details>{title}", "", *facts, "", "</details>"])
    if run.findings[_FAILURES:]:
        yield f"{len(run.findings) - _FAILURES} more findings."


def _format_failures(runs: Sequence[Run]) -> Iterator[str]:
    groups = group_failures(runs)
    if groups:
        yield "### Failures that no finding explains"
    yield from (_format_failure(group) for group in groups[:_FAILURES])
    if groups[_FAILURES:]:
        yield f"{len(groups) - _FAILURES} more: `gradclip summary --format json FILE` lists every cell."
    for group in group_not_run(runs):
        rules = ", ".join(f"{escape_markdown(rule)} ({count})" for rule, count in group.rules.items())
        sign, name = STATUSES[NOT_RUN].emoji, format_code(group.entry_point)
        yield f"{sign} **{format_count(group.total, 'cell')} did not run** of {name}: {rules}."


def _format_failure(group: FailureGroup) -> str:
    cell, header = group.first, group.header
    where = ", ".join(f"{format_code(name)} ({count})" for name, count in group.entry_points.items())
    facts = [f"- {name}: {format_code(text)}" for name, text in (("case", cell.case), *list_values(cell, 600))]
    title = f"{group.status.emoji} {group.status.value}: {format_code_in_html(cell.rule)} ({cell.level}), "
    title += escape_html(header.adapter)
    lines = [escape_markdown(shorten_text(cell.detail, _DETAIL_LENGTH)), "", *facts, f"- cells: {where}"]
    return "\n".join([f"<details><summary>{title}</summary>", "", *lines, "", "</details>"])
