"""Write SARIF 2.1.0, which GitHub's code scanning shows beside the code."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any
from urllib.parse import quote

from .counting import count_rules
from .failures import FailureGroup, group_failures, leave_out_findings
from .finding_text import list_lines, write_heading, write_short_line
from .lines import Finding, Run
from .markup import escape_markdown, format_code
from .statuses import UNEXPLAINED
from .values import escape_line, escape_text, format_cell_count, shorten_text, write_json

__all__ = ["draw_sarif", "find_location"]

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"

#: Code scanning shows 5,000 results of a file at most. Nobody reads more than a screen or two.
_RESULTS = 500

#: Longer texts are cut, because a framework's message may be a whole traceback.
_LENGTH = 1000

#: The severities whose results are warnings. The results of all others are errors.
_LEVELS = {"rounding": "warning", "form": "warning"}


def draw_sarif(runs: Sequence[Run], location: str = "") -> str:
    """Return one log with a rule for each cause, and a result for each finding that fails its run.

    Findings that are documented or known are left out, because code scanning opens an alert for each result.

    Parameters
    ----------
    runs
        The runs.
    location
        The file in the repository beside which the results are shown. By default, it is the file that was checked.

    Raises
    ------
    ValueError
        If a run did not check a file and `location` is empty, or if the location lies outside the repository.
    """
    rules: dict[str, dict[str, Any]] = {}
    results: list[dict[str, Any]] = []
    for run in runs:
        where = _make_location(find_location(run, location))
        for rule, result in _describe_results(run):
            rules.setdefault(rule["id"], rule)
            results.append({**result, "ruleId": rule["id"], "locations": [where]})
    order = {name: number for number, name in enumerate(rules)}
    results = [{**result, "ruleIndex": order[result["ruleId"]]} for result in results[:_RESULTS]]
    suite = runs[0].header.suite
    adapters = " ".join(escape_line(run.header.adapter) for run in runs)
    sentences = [f"{escape_line(run.header.heading)}: {count_rules([run]).write_sentence()}." for run in runs]
    log = {
        "tool": {
            "driver": {
                "name": escape_line(suite["name"]),
                "version": escape_line(suite["version"]),
                "rules": list(rules.values()),
            }
        },
        # The text before the last slash is the category by which code scanning tells one upload from another.
        "automationDetails": {"id": f"gradclip/{quote(adapters, safe='')[:200]}/"},
        "results": results,
        "properties": {"summary": sentences},
    }
    return write_json({"$schema": SCHEMA, "version": "2.1.0", "runs": [log]}, indent=1) + "\n"


def find_location(run: Run, location: str = "") -> str:
    """Return the file beside which the results of a run are shown, as a path with slashes.

    Raises
    ------
    ValueError
        If there is no such file, or if it lies outside the repository.
    """
    adapter = run.header.adapter
    checked = re.fullmatch(r"(.+\.py)(?::[^:/\\]*)?", adapter, re.DOTALL)
    if not location and checked is None:
        msg = (
            f"SARIF shows each result beside a file, and {escape_line(adapter)} is not one. Name the file in your "
            "repository with --location."
        )
        raise ValueError(msg)
    text = location or str(checked and checked[1])
    path = PurePosixPath(PureWindowsPath(text).as_posix())
    if path.is_absolute() or PureWindowsPath(text).is_absolute() or ".." in path.parts:
        msg = f"SARIF names files in a repository, and {escape_line(text)} is not a path below the working directory."
        raise ValueError(msg)
    return str(path)


def _make_location(path: str) -> dict[str, Any]:
    # A finding is about the whole function, but code scanning needs a line.
    return {"physicalLocation": {"artifactLocation": {"uri": quote(path)}, "region": {"startLine": 1}}}


def _describe_results(run: Run) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield a rule and its result for each finding that fails the run, and for each failure without a finding."""
    for finding in run.findings:
        if finding.spoils:
            yield _make_finding_rule(finding), _make_finding_result(finding, run)
    for group in group_failures([leave_out_findings(run)]):
        yield _make_failure_rule(group), _make_failure_result(group)


def _make_finding_rule(finding: Finding) -> dict[str, Any]:
    title, why = escape_line(finding.title), escape_line(finding.why)
    name = escape_line(finding.cause)
    if finding.cause == UNEXPLAINED:
        name = f"{name}.{escape_line(next(iter(finding.rules), ''))}"
    return _make_rule(name, title, f"{escape_line(finding.question)} {why}", escape_line(finding.severity))


def _make_rule(name: str, title: str, text: str, severity: str) -> dict[str, Any]:
    return {
        "id": name,
        "shortDescription": {"text": title},
        "fullDescription": {"text": text},
        "help": {"text": text, "markdown": escape_markdown(text)},
        "defaultConfiguration": {"level": _LEVELS.get(severity, "error")},
        "properties": {"tags": ["gradient-clipping", severity]},
    }


def _make_finding_result(finding: Finding, run: Run) -> dict[str, Any]:
    facts = list_lines(finding, run)
    text = "\n".join([write_short_line(finding), *(f"{name}: {told}" for name, told in facts)])
    markdown = "\n".join([f"**{escape_markdown(write_heading(finding))}**", "", *_list_facts(facts)])
    parts = [run.header.adapter, finding.cause, finding.parameters]
    return _make_result(text, markdown, _LEVELS.get(finding.severity, "error"), parts)


def _list_facts(facts: Sequence[tuple[str, str]]) -> list[str]:
    return [f"- {name}: {format_code(told)}" for name, told in facts]


def _make_failure_rule(group: FailureGroup) -> dict[str, Any]:
    cell, status = group.first, group.status
    return _make_rule(f"{status.value}.{escape_line(cell.rule)}", status.meaning, status.meaning, status.value)


def _make_failure_result(group: FailureGroup) -> dict[str, Any]:
    cell, header = group.first, group.header
    facts = [("case", f"{cell.case} of {cell.subject}"), ("detail", shorten_text(cell.detail, _LENGTH))]
    facts.append(("cells", format_cell_count(len(group.cells))))
    text = "\n".join([group.status.value, *(escape_text(f"{name}: {told}") for name, told in facts)])
    return _make_result(text, "\n".join(_list_facts(facts)), "error", [header.adapter, cell.rule, cell.status])


def _make_result(text: str, markdown: str, level: str, identity: Sequence[Any]) -> dict[str, Any]:
    """Return a result. The same finding of a later run has the same fingerprint, so that its alert is kept."""
    mark = hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()
    return {
        "level": level,
        "message": {"text": text, "markdown": markdown},
        # Code scanning makes fingerprints of lines by itself, and would then join all results of one line.
        "partialFingerprints": {"primaryLocationLineHash": mark},
    }
