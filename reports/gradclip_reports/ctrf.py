"""Write CTRF, the common test report format (https://ctrf.io)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from .lines import Run
from .outcomes import Outcome, describe_outcome, list_outcomes, measure_milliseconds
from .values import escape_line, escape_text, write_json

__all__ = ["draw_ctrf"]

#: CTRF has no outcome for an error of the test itself, so such a test counts as failed. `rawStatus` holds the status of
#: the cell.
_STATUS = {"passed": "passed", "skipped": "skipped", "failed": "failed", "error": "failed"}


def draw_ctrf(runs: Sequence[Run]) -> str:
    """Return one report of all runs, with one test for each cell."""
    tests = [_describe_test(run, item) for run in runs for item in list_outcomes(run)]
    counts = Counter(test["status"] for test in tests)
    times = [measure_milliseconds(run) for run in runs]
    summary = {
        "tests": len(tests),
        **{name: counts[name] for name in ("passed", "failed", "skipped", "pending", "other")},
        "suites": len(runs),
        "start": min(start for start, _ in times),
        "stop": max(start + duration for start, duration in times),
    }
    suite = {key: escape_line(value) for key, value in runs[0].header.suite.items()}
    environment = {"extra": {"runs": [_describe_environment(run) for run in runs]}}
    document = {
        "reportFormat": "CTRF",
        "specVersion": "1.0.0",
        "generatedBy": f"{suite['name']} {suite['version']}",
        "results": {
            "tool": {"name": suite["name"], "version": suite["version"]},
            "summary": summary,
            "tests": tests,
            "environment": environment,
        },
    }
    return write_json(document) + "\n"


def _describe_environment(run: Run) -> dict[str, Any]:
    environment = {escape_line(key): escape_line(value) for key, value in run.header.environment.items()}
    framework = {key: escape_line(value) for key, value in run.header.framework.items()}
    # The suite's own entries come last, because an environment may hold any key.
    return {**environment, "adapter": escape_line(run.header.adapter), "framework": framework}


def _describe_test(run: Run, item: Outcome) -> dict[str, Any]:
    test: dict[str, Any] = {
        "name": escape_text(item.case),
        "status": _STATUS[item.outcome],
        "duration": round(1000 * item.seconds),
        "suite": [
            escape_text(f"{run.header.adapter} {run.header.framework['version']}".rstrip()),
            escape_text(item.subject),
        ],
        "rawStatus": item.status,
        "type": "conformance",
    }
    if item.status != "pass":
        test["message"] = item.message
        test["trace"] = describe_outcome(item)
    if item.cell is not None:
        test["labels"] = {
            name: escape_line(getattr(item.cell, name)) for name in ("operation", "rule", "level", "dtype")
        }
    if item.finding is not None:
        test.setdefault("labels", {})["cause"] = escape_line(item.finding.cause)
    return test
