"""Run every mutant, and compare the defect written into it with the causes that its findings name.

`python confusion.py [--jobs J] [--output FOLDER]` prints the comparison. With `--output` it writes it to `findings.md`
in the folder. The exit code 1 means that a measure is not met.

`python confusion.py --cause no-root` prints what findings name for each mutant with this cause. The exit code 1 means
that they name another cause first for one of them.
"""

from __future__ import annotations

import argparse
import datetime
import platform
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

HERE = Path(__file__).resolve().parent
# In a test, pytest's `pythonpath` finds the modules beside the tests. A script must add their folders to the path.
sys.path += [str(folder) for folder in (HERE, HERE.parent) if str(folder) not in sys.path]

from mutants import WRONG, Wrong  # noqa: E402 - it lies beside this script

from gradclip_adapters import arrays  # noqa: E402
from gradclip_adapters.plain import PlainFunction  # noqa: E402
from gradclip_conformance.cases.catalogue import list_all_cases  # noqa: E402
from gradclip_conformance.causes.findings import list_asked_rules  # noqa: E402
from gradclip_conformance.causes.model import Evidence  # noqa: E402
from gradclip_conformance.run.in_process import InProcess  # noqa: E402
from gradclip_conformance.run.plan import Selection, plan_cells  # noqa: E402
from gradclip_conformance.run.runner import explain_findings, plan_rows, run_cell  # noqa: E402
from gradclip_reports.markup import draw_markdown_table  # noqa: E402
from gradclip_reports.records import Cell, Finding  # noqa: E402
from gradclip_reports.statuses import UNEXPLAINED  # noqa: E402

#: The required shares: of mutants whose first finding names the defect, and of mutants with few findings.
NAMED = 0.95
FEW, FEW_SHARE = 3, 0.95


@dataclass(frozen=True)
class Defect:
    """A mutant of one operation."""

    wrong: Wrong
    #: The rules that must catch it.
    rules: tuple[str, ...]

    @property
    def name(self) -> str:
        """Return what the mutant does wrong, and its operation."""
        return f"{self.wrong.does} ({self.wrong.operation})"


def list_defects() -> list[Defect]:
    """Return every mutant once for each operation."""
    groups: dict[tuple[str, str], list[Wrong]] = {}
    for wrong in WRONG:
        groups.setdefault((wrong.does, wrong.operation), []).append(wrong)
    return [Defect(same[0], tuple(wrong.rule for wrong in same)) for same in groups.values()]


def find_findings(defect: Defect) -> list[Finding]:
    """Return the findings about a mutant, from all written cases, and from rows if rules about rows catch it."""
    # An adapter with other abilities answers only the calls of its rules.
    rules = () if defect.wrong.adapter is PlainFunction else defect.rules
    evidence: list[Evidence] = []
    connection = connect(defect.wrong)
    cells = run_mutant(connection, defect.wrong, rules, defect.rules, evidence)
    return explain_findings(evidence, list_asked_rules(cells), (), connection, 1.0)


def connect(wrong: Wrong) -> InProcess:
    return InProcess(wrong.adapter(wrong.function, wrong.operation, dtypes=wrong.dtypes, in_place=wrong.in_place))


def run_mutant(
    connection: InProcess,
    wrong: Wrong,
    rules: tuple[str, ...],
    row_rules: tuple[str, ...],
    evidence: list[Evidence] | None = None,
) -> list[Cell]:
    """Return the cells of written cases, of all rules if none is named, and of rows until one catches the mutant."""
    entry_points = connection.description.subjects
    cells = [
        run_cell(connection, cell, 1.0, evidence=evidence)
        for cell in plan_cells(entry_points, list_all_cases(), Selection(rules=rules))
        if set(cell.case.dtype.split("+")) <= set(wrong.dtypes)
    ]
    # One rule has a thousand rows: the first row that catches the function is enough.
    for planned in plan_rows(entry_points, Selection(rules=row_rules)):
        cells.append(run_cell(connection, planned, 1.0, evidence=evidence))
        if cells[-1].status == wrong.caught_as:
            break
    return cells


def wait_for_interrupting_calls() -> None:
    """Let a call that interrupts another call end in time even on a busy machine: no mutant holds a lock."""
    arrays.PATIENCE = 60.0


@dataclass(frozen=True)
class Comparison:
    """The causes that the row of a mutant gives, and those that its findings name."""

    defect: str
    written: Sequence[str]
    named: Sequence[str]

    @property
    def is_named(self) -> bool:
        """Whether the first finding names the defect."""
        return bool(self.named) and self.named[0] in self.written


def compare_causes(number: int) -> Comparison:
    """Compare the causes of one mutant."""
    defect = list_defects()[number]
    # Poor accuracy alone does not fail the check. Use such findings only if there are no others.
    every = find_findings(defect)
    findings = [finding for finding in every if finding.spoils] or every
    return Comparison(defect.name, defect.wrong.causes, [finding.singles[0].cause for finding in findings])


def write_page(each: Sequence[Comparison]) -> tuple[str, list[str]]:
    """Return the page, and the measures that are not met.

    The page holds the measures, the pairs of causes, and the mutants whose first finding names another cause.
    """
    total, counts = len(each), sorted(len(one.named) for one in each)
    named, few, median = sum(one.is_named for one in each), sum(count <= FEW for count in counts), counts[total // 2]
    without_cause = [one for one in each if list(one.written) == [UNEXPLAINED]]
    unseen, falsely = len(without_cause), sum(not one.is_named for one in without_cause)
    pairs = Counter((one.written[0], one.named[0] if one.named else "no finding") for one in each)
    rows = sorted(((*pair, count) for pair, count in pairs.items()), key=lambda row: (row[0], -row[2], row[1]))
    other = [
        (one.defect, ", ".join(one.written), ", ".join(one.named[:3]) or "no finding")
        for one in each
        if not one.is_named
    ]
    faults = []
    if named < NAMED * total:
        faults.append(f"the first finding names the defect of only {named} of {total} mutants")
    if few < FEW_SHARE * total:
        faults.append(f"only {few} of {total} mutants have at most {FEW} findings")
    if median != 1:
        faults.append(f"the median number of findings is {median}")
    lines = [
        "# The causes of the mutants",
        "",
        f"Made by `nox -s mutation -- --findings` {describe_conditions()}.",
        "",
        "Each mutant has one defect, and its row in `tests/conformance/mutants/` holds its cause.",
        "The suite checks the mutant and names causes in its findings.",
        "",
        f"- Mutants whose first finding names the defect: {_write_share(named, total)}",
        f"- Median number of findings of a mutant: {median}",
        f"- Mutants with at most {FEW} findings: {_write_share(few, total)}",
        f"- Defects that the catalogue does not have: {unseen}; for {falsely} of them, the first finding names a cause",
        "",
        *(f"- **Wrong here:** {fault}" for fault in faults),
        "",
        draw_markdown_table([("cause of the defect", "cause of the first finding", "mutants"), *rows]),
        "",
        "Several causes may describe a defect correctly. The first findings of these mutants name none of them:",
        "",
        draw_markdown_table([("defect", "correct causes", "named causes"), *other]),
    ]
    page = "\n".join(line for number, line in enumerate(lines) if line or lines[number - 1 : number] != [""])
    return page + "\n", faults


def describe_conditions() -> str:
    """Return the conditions in words, such as "on 2026-11-23 with NumPy 2.3"."""
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    numbers = {"gradclip-spec": version("gradclip-spec"), "Python": platform.python_version(), "NumPy": np.__version__}
    return f"on {day} with {', '.join(f'{name} {number}' for name, number in numbers.items())}"


def _write_share(count: int, total: int) -> str:
    return f"{count} of {total} ({100 * count / total:.1f} %)"


def main(arguments: Sequence[str]) -> int:
    """Run the mutants, print the comparison, and write it to the folder if one is named."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--cause")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--output", type=Path)
    options = parser.parse_args(arguments)
    numbers = [
        number
        for number, defect in enumerate(list_defects())
        if options.cause is None or options.cause in defect.wrong.causes
    ]
    if not numbers:
        parser.error(f"no mutant has the cause {options.cause!r}")
    with ProcessPoolExecutor(options.jobs, initializer=wait_for_interrupting_calls) as pool:
        each = list(pool.map(compare_causes, numbers))
    if options.cause is not None:
        for one in each:
            sys.stdout.write(f"{one.defect}: {', '.join(one.named) or 'no finding'}\n")
        return 0 if all(one.is_named for one in each) else 1
    page, faults = write_page(each)
    sys.stdout.write(page)
    if options.output is not None:
        (options.output / "findings.md").write_text(page, encoding="utf-8")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
