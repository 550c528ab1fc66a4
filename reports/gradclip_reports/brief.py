"""Write the report that a person reads first: the counts of rules, the findings, and the worst findings in full."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .counting import count_rules
from .failures import FailureGroup, group_failures, group_not_run, leave_out_findings, list_values
from .finding_text import describe_standing, list_lines, write_heading, write_short_line
from .layout import paint, shorten_line, wrap_text
from .lines import Finding, Run
from .statuses import LACKS, Status
from .values import escape_line, format_count, shorten_text

#: The report on one run should not be longer than this many lines. All findings that fail the run are listed even so;
#: others are listed only if there is room.
LINES = 15

#: The facts of a finding stand after labels of this width.
LABEL = 10

#: Longer texts are cut, because a framework's message may be a whole traceback.
VALUE_LENGTH = 1000


class Line(NamedTuple):
    """A line, with one of the styles of `layout.paint`."""

    text: str
    style: str = ""


def draw_brief(
    runs: Sequence[Run], *, width: int = 80, record: str = "", color: bool = False, hints: bool = True
) -> str:
    """Return the report.

    Parameters
    ----------
    runs
        The runs.
    width
        The number of columns.
    record
        The record's path, quoted for a shell. It is empty if the record is not kept.
    color
        Whether to add the escape codes of colours.
    hints
        Whether to name the options of `gradclip` that show more.
    """
    worst = next(((run, one) for run in runs for one in run.findings if one.spoils), None)
    unfound = [group for run in runs for group in group_failures([leave_out_findings(run)])]
    end = [Line(""), *_draw_verdict(runs, record, hints)]
    mistake = next((group for group in unfound if group.status is Status.ERROR), None)
    if mistake is not None:
        # Findings count for little until the adapter works.
        end = [Line(""), *_draw_failure(mistake, width), *end]
    elif worst is not None:
        # `gradclip repro` takes one file with one run.
        kept = record if len(runs) == 1 and record.endswith((".jsonl", ".jsonl.gz")) else ""
        end = [Line(""), *_draw_finding(worst[1], worst[0], width, kept), *end]
    elif unfound:
        end = [Line(""), *_draw_failure(unfound[0], width), *end]
    lines = [line for run in runs for line in _draw_run(run, width, len(end), len(runs) > 1)] + end
    return "".join(f"{paint(text.rstrip(), style if color else '')}\n" for text, style in lines)


def _draw_run(run: Run, width: int, below: int, several: bool) -> Iterator[Line]:
    """Yield the lines of one run. `below` lines follow them."""
    head = list(_draw_counts(run, width, several))
    # Show everything that fails the run. Of the rest, show the worst.
    spoiling = [one for one in run.findings if one.spoils]
    rest = [one for one in run.findings if not one.spoils]
    room = 0 if several else max(0, LINES - len(head) - len(spoiling) - below)
    # One more line says how many findings are left out.
    shown = rest if len(rest) <= room else rest[: max(0, room - 1)]
    yield from head
    for one in (*spoiling, *shown):
        yield Line(_fit_finding(one, width), "red" if one.spoils else "")
    if left := len(rest) - len(shown):
        verb = "does" if left == 1 else "do"
        yield Line(f"  and {format_count(left, 'finding')} that {verb} not fail the run", "dim")


def _draw_counts(run: Run, width: int, several: bool) -> Iterator[Line]:
    header, counts = run.header, count_rules([run])
    for line in wrap_text(escape_line(header.heading), width, rest="  "):
        yield Line(line, "bold")
    for line in _wrap(escape_line(header.conditions), width, 2):
        yield Line(line, "dim")
    yield from map(Line, _wrap(f"{counts.write_sentence()}.", width, 2))
    if not several and counts.lacks:
        kinds = ", ".join(f"{LACKS[name]} {count}" for name, count in counts.lacks.items())
        yield from map(Line, _wrap(f"cells that could not be tested: {kinds}", width, 2))
    for group in group_not_run([run]):
        told = f"did not run: {format_count(group.total, 'cell')} of {escape_line(group.entry_point)}"
        yield from (Line(line, "red") for line in _wrap(told, width, 2))
    # An error of the suite or of an adapter is not a finding, and older records have no findings.
    for failed in group_failures([leave_out_findings(run)]):
        rule, meaning = escape_line(failed.first.rule), failed.status.meaning
        told = f"{failed.status.value}: {rule} ({format_count(len(failed.cells), 'cell')}; {meaning})"
        yield Line(shorten_line(f"  {failed.status.glyph} {told}", width), "red")


def _fit_finding(finding: Finding, width: int) -> str:
    """Return a finding in one line. Leave out its counts if they do not fit."""
    sign = "✗" if finding.spoils else "·"
    fitting = (f"  {sign} {write_short_line(finding, counts)}" for counts in (2, 1, 0))
    return next((line for line in fitting if len(line) <= width), "") or shorten_line(
        f"  {sign} {write_short_line(finding, 0)}", width
    )


def draw_finding(finding: Finding, run: Run) -> list[str]:
    """Return a finding in full, with a command that shows more of its example."""
    return [line.text for line in _draw_finding(finding, run, width=80, record="")]


def _draw_finding(finding: Finding, run: Run, width: int, record: str) -> Iterator[Line]:
    """Yield a finding in full, with a command that says more: `repro` if there is a record, else `show`."""
    heading = f"✗ {write_heading(finding)}" if finding.spoils else write_heading(finding)
    for line in _wrap(heading, width):
        yield Line(line, "bad" if finding.spoils else "bold")
    told = f"{escape_line(finding.severity)}, {describe_standing(finding)}: {format_count(finding.count, 'cell')}"
    yield from map(Line, _wrap(told, width, 2))
    for name, text in list_lines(finding, run):
        yield from map(Line, _draw_fact(name, text, width))
    verb = f"repro {record}" if record else "show"
    # The command is never wrapped, so that it can be copied. A record may hold any name, so the name is quoted.
    yield Line(f"  more: gradclip {verb} {shlex.quote(escape_line(finding.example['case']))}")


def _draw_failure(group: FailureGroup, width: int) -> Iterator[Line]:
    cell = group.first
    facts = [("case", f"{cell.case} of {cell.subject}"), ("detail", shorten_text(cell.detail, VALUE_LENGTH))]
    for line in _wrap(f"{group.status.glyph} {group.status.value}: {escape_line(cell.rule)}", width):
        yield Line(line, "bad")
    for name, text in (*facts, *list_values(cell, VALUE_LENGTH)):
        yield from map(Line, _draw_fact(name, escape_line(text), width))


def _draw_fact(name: str, text: str, width: int) -> list[str]:
    # The id of a case is not broken, so that it can be copied.
    return wrap_text(text, width, f"  {name:<{LABEL}} ", " " * (LABEL + 3), break_words=name != "case")


def _draw_verdict(runs: Sequence[Run], record: str, hints: bool) -> Iterator[Line]:
    for run in runs:
        if run.cells and not run.is_judged:
            told = f"No cell of {escape_line(run.header.heading)} was judged: none is both supported and specified."
            yield Line(told, "bold")
    counts = count_rules(runs)
    if counts.without_reason:
        yield Line(f"{format_count(counts.without_reason, 'known failure')} without a reason.", "yellow")
    as_expected = all(run.is_as_expected for run in runs)
    yield Line("As expected.", "good") if as_expected else Line("Not as expected.", "bad")
    if hints and record:
        yield Line("Add -v for the table of all rules. To list every cell that did not pass:", "dim")
        # The command is never wrapped, so that it can be copied.
        yield Line(f"  gradclip summary --format json {escape_line(record)}", "dim")
    elif hints:
        yield Line("Add -v for the table of all rules, and -o FILE to keep every answer.", "dim")


def _wrap(text: str, width: int, indent: int = 0) -> list[str]:
    return wrap_text(text, width, " " * indent, " " * (indent + 2))
