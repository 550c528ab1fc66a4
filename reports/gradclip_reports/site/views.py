"""Prepare what the pages show: each run with its answers, findings, rules and entry points.

The templates hold no logic beside loops and conditions. Everything that a record says is text here, cut to a length
that fits a page; the templates escape it.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ..counting import RuleCounts, count_rules
from ..difference import choose_entry_points
from ..finding_text import MESSAGE, describe_standing, list_quotes, write_heading
from ..formula_table import describe_formulas
from ..layout import shorten_line
from ..lines import Cell, Finding, Header, Run
from ..matrix import Tally, tally_by
from ..statuses import rank_severity
from ..values import escape_line, format_value, group_by, shorten_text
from ..versions import Chance, describe_trace, identify, name_finding, sort_versions, split_errors, trace_findings
from .catalogue import Catalogue
from .questions import Answer, answer_operations
from .slugs import Slugs, is_safe_link

#: A function that writes a script. The script shows a cell without the suite. It is empty if none can be written.
ScriptWriter = Callable[[Run, Cell], str]

#: Longer texts are cut. The record holds them in full.
_LENGTH = 2000
#: In lists of findings, the message of an error is cut to this length.
_LABEL = 70
#: The input of an example beside an answer is cut to this length, and so is its result.
_EXAMPLE = 300
#: At most this many findings are shown. The record holds the others. Published records have at most 20.
_FINDINGS = 200
#: At most this many rules or cases are listed. The others are only counted.
_LISTED = 400


@dataclass(frozen=True)
class FindingView:
    """One finding of a run."""

    finding: Finding
    #: The place of the finding in the run.
    number: int
    #: The anchor on the framework's page.
    anchor: str
    heading: str
    #: The heading with the beginning of the message, which tells findings of one cause apart.
    label: str
    #: The text of an error or a warning. It is empty if there is none.
    message: str
    #: One of new, known, documented, declared, poor.
    standing: str
    #: The page of the cause. It is empty if the catalogue does not have it.
    cause: str
    #: The heading of each finding that this one combines, with the page of its cause.
    parts: Sequence[tuple[str, str]]
    #: The heading and the severity of each finding that this one combines, or of this one alone.
    singles: Sequence[tuple[str, str]]
    entry_points: Sequence[str]
    rules: Sequence[tuple[str, int]]
    input: str
    expected: str
    observed: str
    detail: str
    #: The phrases of documentation, each with its place.
    quotes: Sequence[tuple[str, str]]
    reason: str
    url: str
    is_link: bool
    command: str
    script: str
    #: The versions of the framework that show the finding. The text is empty if there is only one run of it.
    versions: str = ""

    def shows(self, cause: str) -> bool:
        """Return whether the finding, or one that it combines, has a cause."""
        return cause in (one.cause for one in (self.finding, *self.finding.parts))


@dataclass(frozen=True)
class EntryView:
    """One entry point of a framework."""

    name: str
    slug: str
    operation: str
    dtypes: str
    features: str
    norms: str
    formula: str
    answers: Mapping[str, Answer]
    findings: Sequence[FindingView]
    rules: Sequence[tuple[str, Tally]]


@dataclass
class RunView:
    """One run: a framework in one version.

    A view holds no cells. The templates keep the views until Python searches for cycles of objects, and this search
    would take as long as a tenth of the whole report if it found a hundred thousand cells.
    """

    header: Header
    slug: str
    heading: str
    record: str
    #: The answers to the questions, by operation. The key "" holds those of the first operation that can answer.
    answers: Mapping[str, Mapping[str, tuple[Answer, ...]]]
    #: An input and what comes back, for answers that are not simply right.
    examples: Mapping[Answer, tuple[str, str]]
    counts: RuleCounts
    findings: list[FindingView]
    #: Findings beyond those that are shown.
    more_findings: int
    rules: Mapping[str, Tally]
    #: The same for the cells of each entry point.
    rules_of_entries: Mapping[str, Mapping[str, Tally]]
    #: What its entry points do, by operation: a text for each label of the table of formulas.
    formulas: Mapping[str, Mapping[str, str]]
    #: Whether the run was cut off, so that cells and all findings are missing.
    is_part: bool = False
    entries: list[EntryView] = field(default_factory=list)
    #: The runs of the same adapter, the oldest first, if there are several.
    history: list[Stage] = field(default_factory=list)

    @property
    def name(self) -> str:
        """The framework's name."""
        return self.header.framework["name"]

    @property
    def version(self) -> str:
        """The framework's version."""
        return self.header.framework["version"]

    @property
    def date(self) -> str:
        """The day of the run."""
        return self.header.started[:10]


@dataclass(frozen=True)
class Stage:
    """One run in the history of a framework, compared with the run before it."""

    view: RunView
    appeared: Sequence[str]
    gone: Sequence[str]
    is_first: bool


def make_views(
    runs: Sequence[tuple[Run, str]], catalogue: Catalogue, write_script: ScriptWriter, older: Sequence[Run] = ()
) -> list[RunView]:
    """Return the runs as the pages show them.

    Parameters
    ----------
    runs
        Each run with the name of its record, for commands that readers copy.
    catalogue
        The rules, the causes and the questions.
    write_script
        A function that writes the script of a cell.
    older
        Runs of other versions. They get no page, but say since when and until when a finding is shown.
    """
    slugs, entry_slugs = Slugs(), Slugs()
    views = [_view_run(run, record, catalogue, write_script, slugs) for run, record in runs]
    _add_history(views)
    _add_versions(views, [*(run for run, _ in runs), *older], catalogue.is_by_chance)
    for view in views:
        view.entries += [_view_entry(view, entry_point, catalogue, entry_slugs) for entry_point in view.header.subjects]
    return views


def _view_run(run: Run, record: str, catalogue: Catalogue, write_script: ScriptWriter, slugs: Slugs) -> RunView:
    cells = {cell.pair: cell for cell in run.cells}
    known = {cause.id for cause in catalogue.causes}
    anchors = Slugs()
    ranked = sorted(enumerate(run.findings), key=lambda pair: rank_severity(pair[1].severity))
    findings = [
        _view_finding(run, record, number, cells, known, anchors, write_script) for number, _ in ranked[:_FINDINGS]
    ]
    answers = answer_operations(run, catalogue)
    return RunView(
        run.header,
        slugs.choose(f"{run.header.adapter}-{run.header.framework['version']}"),
        run.header.heading,
        record,
        answers,
        dict(_list_examples(answers, cells)),
        count_rules([run]),
        findings,
        len(run.findings) - len(findings),
        _count_by_rule(run.cells),
        {name: _count_by_rule(found) for name, found in group_by(lambda cell: cell.subject, run.cells).items()},
        describe_formulas(run, choose_entry_points(run), catalogue.questions),
        run.footer.incomplete,
    )


def _count_by_rule(cells: Iterable[Cell]) -> dict[str, Tally]:
    return tally_by(lambda cell: cell.rule, cells)


def _list_examples(
    answers: Mapping[str, Mapping[str, Sequence[Answer]]], cells: Mapping[tuple[str, str], Cell]
) -> Iterator[tuple[Answer, tuple[str, str]]]:
    """Yield each answer that is not simply right, with an input and what comes back."""
    for answer in {one: None for found in answers.values() for group in found.values() for one in group}:
        if answer.standing not in ("broken", "poor", "documented"):
            continue
        found = (cells.get((entry_point, answer.case)) for entry_point in answer.entry_points)
        cell = next((one for one in found if one is not None and one.observed is not None), None)
        if cell is not None:
            yield answer, (shorten_text(_show(cell.input), _EXAMPLE), shorten_text(_show(cell.observed), _EXAMPLE))


def _view_finding(
    run: Run,
    record: str,
    number: int,
    cells: Mapping[tuple[str, str], Cell],
    known: set[str],
    anchors: Slugs,
    write_script: ScriptWriter,
) -> FindingView:
    finding = run.findings[number]
    example = finding.example
    cell = cells.get((example["subject"], example["case"]))
    command = shlex.join(["gradclip", "repro", record, escape_line(example["case"])])
    command += f" --entry-point {shlex.quote(escape_line(example['subject']))}"
    heading = write_heading(finding)
    message = _cut(str(finding.parameters.get(MESSAGE, "")))
    label = f"{heading}: {shorten_line(message, _LABEL)}" if message else heading
    # Two parts may differ only in their reasons, which are not listed. The worst part comes first.
    parts: dict[str, Finding] = {}
    for part in finding.parts:
        parts.setdefault(write_heading(part), part)
    return FindingView(
        finding=finding,
        number=number,
        anchor="finding-" + anchors.choose(finding.cause),
        heading=heading,
        label=label,
        message=message,
        standing=describe_standing(finding),
        cause=finding.cause if finding.cause in known else "",
        parts=[(told, part.cause if part.cause in known else "") for told, part in parts.items()],
        singles=[(told, part.severity) for told, part in parts.items()] or [(label, finding.severity)],
        entry_points=list(finding.cells),
        rules=sorted(finding.rules.items(), key=lambda pair: -pair[1])[:_LISTED],
        input=_show(example.get("input")),
        expected=_show(example.get("expected")),
        observed=_show(example.get("observed")),
        # The reason has a place of its own.
        detail=_cut(example["detail"].removesuffix(f"Known: {finding.reason}")),
        quotes=[(_cut(text), _cut(place)) for text, place in list_quotes(finding, run.cells)],
        reason=_cut(finding.reason or ""),
        url=_cut(finding.url or ""),
        is_link=is_safe_link(finding.url),
        command=command,
        script=write_script(run, cell) if cell is not None else "",
    )


def _view_entry(view: RunView, entry_point: Mapping[str, Any], catalogue: Catalogue, slugs: Slugs) -> EntryView:
    name, operation = entry_point["name"], entry_point["operation"]
    answers: dict[str, Answer] = {}
    for question in catalogue.questions:
        mine = [one for one in view.answers[operation][question.id] if name in one.entry_points]
        if mine:
            answers[question.id] = mine[0]
    norms = [f"{float.fromhex(p):g}".replace("inf", "infinity") for p in entry_point["norm_types"]]
    return EntryView(
        name,
        slugs.choose(f"{view.slug}-{name}"),
        operation,
        ", ".join(entry_point["dtypes"]),
        ", ".join(entry_point["features"]),
        ", ".join(norms),
        _show(entry_point["formula"]) if entry_point["formula"] else "",
        answers,
        [one for one in view.findings if name in one.finding.cells],
        list(view.rules_of_entries.get(name, {}).items()),
    )


# History.


def _add_history(views: Sequence[RunView]) -> None:
    """For each framework with several records, note which findings appeared and which disappeared from run to run."""
    for group in group_by(lambda view: view.header.adapter, views).values():
        if len(group) < 2:
            continue
        ordered = sorted(group, key=lambda view: view.header.started)
        stages: list[Stage] = []
        before: dict[str, str] = {}
        for view in ordered:
            shown = {identify(one.finding): one.heading for one in view.findings}
            appeared = [] if not stages else [text for key, text in shown.items() if key not in before]
            gone = [text for key, text in before.items() if key not in shown]
            stages.append(Stage(view, appeared, gone, not stages))
            before = shown
        for view in ordered:
            view.history = stages


def _add_versions(views: Sequence[RunView], runs: Sequence[Run], is_by_chance: Chance) -> None:
    """Say of each finding since when and until when it is shown, if there are several runs of the adapter."""
    for view in views:
        ordered = sort_versions([run for run in runs if run.header.adapter == view.header.adapter])
        if len(ordered) < 2:
            continue
        versions = [run.header.framework["version"] for run in ordered]
        if len(set(versions)) < len(versions):
            versions = [f"{run.header.framework['version']} ({run.header.started[:10]})" for run in ordered]
        spans = {identify(one.finding): describe_trace(one, versions) for one in trace_findings(ordered, is_by_chance)}
        checked = f"; checked: {', '.join(versions)}"
        view.findings = [replace(one, versions=_name_span(one.finding, spans) + checked) for one in view.findings]


def _name_span(finding: Finding, spans: Mapping[str, str]) -> str:
    """Return the versions that show a finding. If its parts differ, name each part."""
    parts = {
        name_finding(single): spans[identify(single)] for joint in finding.singles for single in split_errors(joint)
    }
    if len(set(parts.values())) == 1:
        return next(iter(parts.values()))
    return "; ".join(f"{name}: {span}" for name, span in parts.items())


def _show(value: Any) -> str:
    return "" if value is None else _cut(format_value(value))


def _cut(text: str) -> str:
    return shorten_text(escape_line(text), _LENGTH)
