"""Write the report that a person reads first: the counts of rules, the findings, and the worst of them in full."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import replace

from .counting import count_rules
from .failures import FailureGroup, group_failures, group_not_run
from .finding_text import describe_standing, list_lines, write_heading, write_short_line
from .lines import Finding, Run
from .statuses import LACKS
from .values import escape_line, format_cell_count, format_count, format_value, shorten_text

__all__ = ["draw_brief", "draw_finding"]

#: The number of lines of a report on one run that is as expected. Findings that fail the run are always listed, and
#: others only if there is room.
LINES = 15

#: The width of the labels before the facts of a finding.
LABEL = 10

#: A framework's message may be a whole traceback.
VALUE_LENGTH = 1000


def draw_brief(runs: Sequence[Run], *, width: int = 80, record: str = "FILE") -> str:
    """Return the report: at most 15 lines for a run that is as expected."""
    verdict = ["", *_draw_verdict(runs, record)]
    lines = [line for run in runs for line in _draw_run(run, width, 0 if len(runs) > 1 else LINES - len(verdict))]
    worst = next(((run, one) for run in runs for one in run.findings if one.spoils), None)
    unfound = [group for run in runs for group in group_failures([_leave_out_findings(run)])]
    if worst is not None:
        lines += ["", *draw_finding(worst[1], worst[0], width)]
    elif unfound:
        lines += ["", *_draw_failure(unfound[0], width)]
    lines += verdict
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _draw_run(run: Run, width: int, most: int) -> Iterator[str]:
    """Yield the lines about a run; findings that do not fail it are listed only if there are fewer than `most` lines.

    If `most` is zero, the run is one of several and has fewer facts.
    """
    lines = list(_draw_counts(run, width, bool(most)))
    # Show everything that fails the run; of the rest, show the worst.
    spoiling = [one for one in run.findings if one.spoils]
    # An error of the suite or of an adapter is not a finding, and older records have no findings.
    for failed in group_failures([_leave_out_findings(run)]):
        rule, meaning = escape_line(failed.first.rule), failed.status.meaning
        told = f"{failed.status.value}: {rule} ({format_cell_count(len(failed.cells))}; {meaning})"
        lines.append(_cut(f"  {failed.status.glyph} {told}", width))
    rest = [one for one in run.findings if not one.spoils]
    room = max(0, most - len(lines) - len(spoiling))
    shown = rest if len(rest) <= room else rest[: max(0, room - 1)]
    yield from lines
    for one in (*spoiling, *shown):
        yield _cut(f"  {'✗' if one.spoils else '·'} {write_short_line(one)}", width)
    if rest[len(shown) :]:
        yield f"  and {format_count(len(rest) - len(shown), 'finding')} that do not fail the run"


def _draw_counts(run: Run, width: int, is_single: bool) -> Iterator[str]:
    header, counts = run.header, count_rules([run])
    where = f"Python {header.environment['python']}, {header.environment['platform']}, {header.started[:10]}"
    yield from _wrap(f"{escape_line(header.heading)}  {escape_line(where)}", width)
    yield from _wrap(f"{counts.write_sentence()}.", width, 2)
    if is_single and counts.lacks:
        kinds = ", ".join(f"{LACKS[name]} {count}" for name, count in counts.lacks.items())
        yield from _wrap(f"cells that could not be tested: {kinds}", width, 2)
    for group in group_not_run([run]):
        yield from _wrap(f"did not run: {format_cell_count(group.total)} of {escape_line(group.subject)}", width, 2)


def draw_finding(finding: Finding, run: Run, width: int = 80) -> list[str]:
    """Return a finding in full."""
    lines = _wrap(f"✗ {write_heading(finding)}" if finding.spoils else write_heading(finding), width)
    lines += _wrap(
        f"{escape_line(finding.severity)}, {describe_standing(finding)}: {format_cell_count(finding.count)}", width, 2
    )
    for name, text in list_lines(finding, run):
        lines += _draw_fact(name, text, width)
    example = finding.example
    command = f"gradclip repro {run.header.adapter} {example['case']}"
    return [*lines, _cut(f"  more: {escape_line(command)}", 10 * width)]


def _leave_out_findings(run: Run) -> Run:
    explained = {(subject, case) for one in run.findings for subject, names in one.cells.items() for case in names}
    return replace(run, cells=tuple(cell for cell in run.cells if (cell.subject, cell.case) not in explained))


def _draw_failure(group: FailureGroup, width: int) -> list[str]:
    """Return the first cell of a group in full."""
    cell = group.first
    facts = {"case": f"{cell.case} of {cell.subject}", "detail": cell.detail}
    facts |= {name: getattr(cell, name) for name in ("input", "expected", "observed")}
    lines = _wrap(f"{group.status.glyph} {group.status.value}: {escape_line(cell.rule)}", width)
    for name, value in facts.items():
        if value is not None:
            text = shorten_text(value if isinstance(value, str) else format_value(value), VALUE_LENGTH)
            lines += _draw_fact(name, escape_line(text), width)
    return lines


def _draw_fact(name: str, text: str, width: int) -> list[str]:
    indent = " " * (LABEL + 3)
    start = f"  {name:<{LABEL}} "
    return textwrap.wrap(text, width, initial_indent=start, subsequent_indent=indent, break_on_hyphens=False)


def _draw_verdict(runs: Sequence[Run], record: str) -> Iterator[str]:
    for run in runs:
        if run.cells and not run.is_judged:
            yield f"Nothing was judged of {escape_line(run.header.heading)}: no cell is both supported and specified."
    counts = count_rules(runs)
    if counts.without_reason:
        yield f"{format_count(counts.without_reason, 'known failure')} without a reason."
    as_expected = not group_failures(runs) and all(run.is_judged and not run.footer.not_run for run in runs)
    yield "As expected." if as_expected else "Not as expected."
    # The command is never wrapped, so that it can be copied.
    yield "Add -v for the table of all rules. To list every cell that did not pass:"
    yield f"  gradclip summary --format json {record}"


def _wrap(text: str, width: int, indent: int = 0) -> list[str]:
    return textwrap.wrap(text, width, initial_indent=" " * indent, subsequent_indent=" " * (indent + 2)) or [""]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else shorten_text(text, width)[: width - 4].rstrip() + " ..."
