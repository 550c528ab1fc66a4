"""Write the text of an issue for the project whose framework shows a finding."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gradclip_reports.difference_text import format_answer, format_call
from gradclip_reports.finding_text import list_quotes, write_heading
from gradclip_reports.markup import escape_markdown, format_code
from gradclip_reports.records import Cell, Finding, Header, Run
from gradclip_reports.site.slugs import is_safe_link
from gradclip_reports.statuses import DIFFERING, Status
from gradclip_reports.values import escape_line
from gradclip_reports.versions import describe_span
from gradclip_spec import rules

from ..cases.patterns import matches
from ..known.claims import load_claims_of
from .script import NoScript, write_script

#: A sentence of a rule about the documents that the rule catalogue is taken from. Other projects have not read them.
OWN_DOCUMENTS = re.compile(r" [^.]*\bdocuments\b[^.]*\.")

#: The text names at most this many other entry points, and quotes at most this many phrases.
MOST = 4


def write_issue(run: Run, finding: Finding, cell: Cell, others: Sequence[Run] = (), command: str | None = None) -> str:
    """Return the text of an issue in Markdown.

    Parameters
    ----------
    run
        The run that shows the finding.
    finding
        One of its findings, without parts: a thread is about one cause.
    cell
        A cell of the finding, which the text shows.
    others
        Runs of other versions of the framework. The text says which of them give the same wrong answer.
    command
        The command that starts the host of the adapter, as for `write_script`.

    Raises
    ------
    NoScript
        If the cell has no script.
    """
    header = run.header
    script = write_script(header, cell, command, explained=False)
    lines = [
        f"# {format_code(_name_function(cell.subject))}: {escape_markdown(write_heading(finding))}",
        "",
        escape_markdown(finding.why),
        "",
        "```python",
        script.strip("\n"),
        "```",
        "",
        *_describe_answer(cell),
        "",
        "### What the documentation says",
        "",
        *_quote_documentation(run, finding, cell),
        "",
        "### Where it happens",
        "",
        *_list_places(run, finding, cell, others),
        "",
        f"Found by gradclip-spec {header.suite['version']}, a suite that tests clips, as {format_code(cell.case)}.",
    ]
    return "\n".join(lines) + "\n"


def find_thread(finding: Finding) -> str | None:
    """Return the address of the upstream thread about a known failure, if its entry names one."""
    return next((one.url for one in (finding, *finding.parts) if one.reason and is_safe_link(one.url)), None)


def choose_cell(run: Run, finding: Finding, entry_point: str = "", command: str | None = None) -> Cell:
    """Return the smallest example of a finding, or else its first cell that a script can show.

    `entry_point` is a part of the name of the entry point.
    """
    example = (finding.example["subject"], finding.example["case"])
    cells = {cell.pair: cell for cell in run.cells if entry_point in cell.subject}
    problem = NoScript(f"No entry point whose name contains {entry_point!r} shows the finding {finding.cause!r}.")
    # Scripts of one rule fail for one reason, so one case of each rule is tried.
    tried: set[tuple[str, str]] = set()
    for pair in (example, *finding.pairs):
        cell = cells.get(pair)
        if cell is None or (cell.subject, cell.rule) in tried:
            continue
        tried.add((cell.subject, cell.rule))
        try:
            write_script(run.header, cell, command)
        except NoScript as reason:
            problem = reason
        else:
            return cell
    raise problem


def _name_function(entry_point: str) -> str:
    """Return the name of an entry point without what stands in brackets at its end."""
    return entry_point.partition("[")[0].rstrip() or entry_point


def _describe_answer(cell: Cell) -> Iterator[str]:
    """Yield the lines that say what was passed, what came out, and what is right."""
    if cell.input is not None:
        yield f"- Passed: {format_code(format_call(cell.input))}, {escape_line(cell.dtype)}"
    yield f"- Result: {format_code(format_answer(cell))}"
    if cell.expected is not None:
        right = format_answer(Cell.from_json({**cell.to_json(), "observed": cell.expected}))
        yield f"- Expected: {format_code(right)}"


def _quote_documentation(run: Run, finding: Finding, cell: Cell) -> Iterator[str]:
    """Yield what the framework's documentation says, and what a user can expect where it says nothing."""
    header = run.header
    quotes = list_quotes(finding, run.cells)
    if not quotes:
        claims = load_claims_of(header.adapter, header.framework["version"], header.environment)
        quotes = [(one.phrase, one.where) for one in claims if one.phrase and matches(one.subject, cell.subject)]
    for phrase, place in list(dict.fromkeys(quotes))[:MOST]:
        yield f"> {escape_markdown(phrase)}"
        yield ">"
        yield f"> ({escape_markdown(place)})"
        yield ""
    rule = next((rule for rule in rules.load() if rule.id == (cell.breaks or cell.rule)), None)
    if rule is not None:
        silent = "" if quotes else "We found no sentence about this call. "
        yield f"{silent}Expected: {escape_markdown(OWN_DOCUMENTS.sub('', rule.statement))}"


def _list_places(run: Run, finding: Finding, cell: Cell, others: Sequence[Run]) -> Iterator[str]:
    """Yield the versions, the dtypes and the entry points that show the finding."""
    header = run.header
    yield f"- {escape_markdown(header.heading)}; {escape_markdown(_describe_environment(header))}"
    dtypes = dict.fromkeys(one.dtype for one in run.cells if one.pair in set(finding.pairs) and "+" not in one.dtype)
    if dtypes:
        yield f"- dtypes: {', '.join(map(escape_line, dtypes))}"
    names = [name for name in finding.cells if name != cell.subject]
    if names:
        more = f" and {len(names) - MOST} more" if names[MOST:] else ""
        yield f"- also in {', '.join(map(format_code, names[:MOST]))}{more}"
    if others:
        yield f"- versions: {escape_markdown(_describe_versions(run, cell, others))}"


def _describe_environment(header: Header) -> str:
    """Return the versions of the packages, the Python and the platform."""
    own = ("second_oracle", "suite_python")
    return ", ".join(f"{name} {value}" for name, value in header.environment.items() if value and name not in own)


def _describe_versions(run: Run, cell: Cell, others: Sequence[Run]) -> str:
    """Return in which of the versions the same call gives an answer that differs from the rule."""
    shown: dict[str, bool | None] = {}
    for one in (*others, run):
        found = next((each for each in one.cells if each.pair == cell.pair), None)
        answered = found is not None and found.status != Status.UNSUPPORTED
        shown[one.header.framework["version"]] = found.status in DIFFERING if found and answered else None
    return describe_span(list(shown.values()), list(shown))
