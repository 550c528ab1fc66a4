"""Write the summary in JSON: the counts of every place in the matrix, and every cell that did not pass."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from .counting import RuleCounts, count_explained, count_rules
from .lines import Run
from .matrix import Table, build_matrix
from .values import write_json


def draw_summary(runs: Sequence[Run]) -> str:
    """Return one JSON object.

    Its members are:

    - `runs`: for each run its header, the numbers of planned and finished cells, and the cells that did not run;
    - `columns` and `rules`: the matrix, with the number of cells of each status;
    - `cells`: every cell that did not pass, as in the record, with the index of its run in `runs`;
    - `passed`, `planned` and `as_expected`, for all runs together;
    - `lacks`: what the unsupported cells lack;
    - `rules_kept`: the counts of rules;
    - `explained`: the number of judged cells that did not pass, and how many of these a named cause explains;
    - `findings`: each with the index of its run.
    """
    matrix = build_matrix(runs)
    document = {
        "as_expected": all(run.is_as_expected for run in runs),
        "passed": matrix.tally.passed,
        "planned": matrix.tally.total,
        "counts": matrix.tally.counts,
        "lacks": matrix.lacks,
        "rules_kept": _summarize_counts(count_rules(runs)),
        "explained": dict(zip(("differing", "explained"), count_explained(runs), strict=True)),
        "runs": [_summarize_run(run) for run in runs],
        "columns": [
            {"name": column.name, "version": column.version, "counts": column.tally.counts} for column in matrix.columns
        ],
        "rules": [rule for table in matrix.tables for rule in _summarize_rules(table)],
        "findings": [
            {"run": number, **finding.to_json()} for number, run in enumerate(runs) for finding in run.findings
        ],
        "cells": [
            {"run": number, **cell.to_json()}
            for number, run in enumerate(runs)
            for cell in run.cells
            if cell.status != "pass"
        ],
    }
    return write_json(document, indent=2) + "\n"


def _summarize_counts(counts: RuleCounts) -> dict[str, Any]:
    numbers = {"asked": counts.asked, "kept": counts.kept, "documented": counts.documented, "broken": counts.broken}
    return {**numbers, "not_asked": counts.not_asked, "findings": counts.findings}


def _summarize_run(run: Run) -> dict[str, Any]:
    footer = run.footer.to_json()
    return {**run.header.to_json(), **{name: footer[name] for name in ("planned", "finished", "incomplete", "not_run")}}


def _summarize_rules(table: Table) -> Iterator[dict[str, Any]]:
    for section in table.sections:
        for row in section.rows:
            yield {
                "rule": row.rule,
                "level": row.level,
                "theme": section.theme,
                "operation": table.operation,
                "cells": [
                    {"column": column.number - 1, "counts": dict(tally.counts)}
                    for column, tally in zip(table.columns, row.tallies, strict=True)
                    if tally is not None
                ],
            }
