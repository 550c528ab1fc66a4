"""Define the verb `gradclip check`: run every case against adapters, and show the results."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from gradclip_adapters.operations import PREFIXES
from gradclip_reports.progress import progress_bar, say_line
from gradclip_reports.records import Cell, RecordError, Run, read_partial
from gradclip_reports.render import FORMATS
from gradclip_reports.values import format_count

from ..cases.catalogue import list_all_cases
from ..cases.patterns import suggest_known, suggest_names
from ..cases.shards import find_case_on, make_cases_on
from ..judge.model import StartError
from ..known.faults import find_faults
from ..oracle.formula import Formula
from ..run.plan import PlannedCell, Selection
from ..run.record_file import RecordFile, name_journal
from ..run.runner import CASE_SECONDS, CannotResumeError, RunRequest, load_knowledge, run_adapter, run_cell
from ..run.shrink import search_rows
from ..sampler.draw import ROWS
from ..sampler.rows import find_row, list_all_rows
from .rules import complete_rule
from .summary import choose_exit_code, print_runs
from .targets import (
    Target,
    TargetOptions,
    add_target_options,
    choose_targets,
    complete_target,
    parse_with,
    pass_together,
    say_that_it_does_not_start,
)

#: The parameter of `mallopt` for the least size of memory that is given back at once.
M_MMAP_THRESHOLD = -3

#: `--deep` searches this many times as many rows.
DEEP = 10
#: A mesh that has cases of each form.
EXAMPLE = {"replica": 2, "shard": 2, "tensor": 2}
#: The number of rows of `--quick`, unless `--rows` gives another.
QUICK = 40


def _refuse_nan(context: click.Context, parameter: click.Parameter, value: float) -> float:
    # Every comparison with NaN is false, so that `FloatRange` lets it pass.
    if math.isnan(value):
        msg = f"{value} is not a number of seconds."
        raise click.BadParameter(msg, context, parameter)
    return value


@dataclass(frozen=True)
class RunOptions:
    """The options that choose the cases and how to run them."""

    rules: tuple[str, ...]
    jobs: int
    timeout: float
    #: The number of random calls that the user asks for, if any.
    rows: int | None
    seed: int
    quick: bool
    deep: bool
    formula: Formula | None

    @property
    def row_count(self) -> int:
        """The number of random calls for each function."""
        return self.rows if self.rows is not None else QUICK if self.quick else ROWS


_RUN_OPTIONS = (
    click.option(
        "--rule",
        "--case",
        "rules",
        multiple=True,
        metavar="GLOB",
        shell_complete=complete_rule,
        help="Only rules or cases that match: '*.zero-*'.",
    ),
    click.option(
        "--jobs", default=1, show_default=True, type=click.IntRange(1), help="The number of host processes at once."
    ),
    click.option(
        "--timeout",
        default=CASE_SECONDS,
        show_default=True,
        type=click.FloatRange(0, min_open=True),
        callback=_refuse_nan,
        help="The time limit of a case in seconds; inf for no limit. A first compilation, and a call with over 100 "
        "gradients, have 4 times as long.",
    ),
    click.option(
        "--rows",
        type=click.IntRange(0),
        help=f"The number of random calls for each function: {ROWS} by default, {QUICK} with --quick.",
    ),
    click.option("--seed", default=0, show_default=True, type=int, help="The seed of the random calls."),
    click.option("--quick", is_flag=True, help="Make only a few short random calls, for quick answers."),
    click.option(
        "--deep", is_flag=True, help=f"First search {DEEP} times as many random calls, and shrink those that fail."
    ),
    click.option(
        "--formula",
        metavar="KIND:EPS",
        callback=parse_with(Formula.parse),
        help="The formula that the functions are meant to have: coefficient:1e-6.",
    ),
)


@click.command(short_help="Check adapters against every case.")
@click.argument("adapters", nargs=-1, metavar="[ADAPTER|FILE|MODULE:FN]...", shell_complete=complete_target)
@add_target_options
@pass_together(RunOptions, "how", _RUN_OPTIONS)
@click.option("-o", "--output", metavar="FILE", help="Write the record (JSON Lines). FILE may be a folder.")
@click.option("--resume", metavar="FILE", help="Go on with a run that was cut off while it wrote the record FILE.")
@click.option(
    "--format",
    "format_",
    default="terminal",
    type=click.Choice(FORMATS),
    help="How the result is shown.",
    show_default=True,
)
@click.option("-v", "--verbose", is_flag=True, help="In a terminal, also show the table of all rules.")
def check(
    adapters: tuple[str, ...],
    options: TargetOptions,
    how: RunOptions,
    output: str | None,
    resume: str | None,
    format_: str,
    verbose: bool,
) -> None:
    """Check adapters against every case. Without a name, check all adapters whose framework is installed.

    ADAPTER is a name (`gradclip adapters` lists them), FILE is a Python file that defines an adapter, MODULE:FN is a
    plain function on NumPy arrays. ADAPTER@VERSION asks for a version of the framework, such as optax@0.1.9, or for the
    newest one that begins so. With several adapters, -o FILE holds one run after another. If -o names a folder (an
    existing one, or a name that ends in /), each adapter gets a file there. While a run lasts, FILE.part holds the
    cells that are finished. If the run is cut off, the same command with `--resume FILE` goes on from there.

    \b
    gradclip check numpy torch --venv -o records/
    gradclip check torch --python ~/envs/torch/bin/python
    gradclip check optax@0.1.9 paddle@2.6 --venv
    gradclip check torch --rule 'global-norm.*' --dtype float16
    gradclip check my.module:clip --op clip_by_norm --deep --seed 7
    gradclip check torch --command "ssh gpu1 python -m gradclip_adapters.host"
    """  # noqa: D301 - click needs the character itself, and a raw docstring would hide it
    _return_freed_memory()
    earlier = None
    if resume is not None:
        earlier = _read_earlier(resume, output, adapters)
        output, adapters = resume, adapters or (earlier.header.adapter,)
    targets = choose_targets(adapters, options)
    selection = options.select_cells(how.rules)
    _refuse_patterns_without_a_case(how.rules, options.mesh)
    if output is not None and _is_folder(output):
        _refuse_records_of_one_name(targets)
    runs: list[Run] = []
    faults: list[str] = []
    problems = 0
    for target in targets:
        try:
            run = _run(target, selection, how, output, first=not runs, earlier=earlier)
            runs.append(run)
            # A narrowed run, or one with other rows, leaves out cells, so it cannot judge what is known.
            if selection == Selection() and not how.quick and how.row_count >= ROWS and how.seed == 0:
                faults += find_faults(run, target.version)
        except StartError as error:
            problems += 1
            say_that_it_does_not_start(target, error)
        except KeyboardInterrupt:
            _say_how_to_go_on(target, output)
            print_runs(runs, format_)
            sys.exit(3)
        except CannotResumeError as error:
            say_line(f"The run of {target.label} cannot go on from {name_journal(Path(str(output)))}: {error}.")
            problems += 1
        except OSError as error:
            say_line(f"Cannot write the record of {target.label}: {error}")
            problems += 1
    print_runs(runs, format_, [output] if output else [], verbose=verbose)
    for run in runs:
        if not run.is_judged:
            say_line(_describe_unjudged(run))
    for fault in faults:
        say_line(fault)
    sys.exit(max(choose_exit_code(runs, problems), 1 if faults else 0))


def _return_freed_memory() -> None:
    """Let the C library of Linux give freed arrays of four megabytes or more back to the system.

    By default, it keeps up to 32 MB of each length that was freed once, and a check takes a third more memory. If it
    gave all arrays of a megabyte back, a check would take 5 % more time, because the system clears what it gives out.
    """
    with contextlib.suppress(AttributeError, OSError, TypeError):
        ctypes.CDLL(None).mallopt(M_MMAP_THRESHOLD, 1 << 22)


def _run(
    target: Target, selection: Selection, how: RunOptions, output: str | None, first: bool, earlier: Run | None
) -> Run:
    request = RunRequest(
        target.name,
        functools.partial(target.connect, how.timeout),
        selection,
        how.timeout,
        how.jobs,
        sys.argv[1:],
        how.row_count,
        how.seed,
        _search(target, selection, how) if how.deep else (),
        how.formula,
        how.quick,
        earlier,
    )
    if output is None:
        with progress_bar() as progress:
            return run_adapter(request, progress)
    appends = not first and not _is_folder(output)
    file = RecordFile(_choose_path(output, target), appends=appends, earlier=earlier)
    with file as record, progress_bar() as progress:
        run = run_adapter(request, progress, record.note)
        record.finish(run)
    return run


def _describe_unjudged(run: Run) -> str:
    name = run.header.adapter
    if not run.cells:
        return f"{name}: nothing was judged, because no chosen case is about its operations and dtypes."
    return f"{name}: nothing was judged, because each of {len(run.cells)} cells is unsupported or unspecified."


def _refuse_patterns_without_a_case(patterns: Sequence[str], mesh: Mapping[str, int] | None) -> None:
    if not patterns:
        return
    # The mesh of an engine is not known before its host starts. Its cases have the same names, beside the axes.
    on_meshes = (case for name in PREFIXES for case in make_cases_on(PREFIXES[name].function, mesh or EXAMPLE))
    cases = (*list_all_cases(), *list_all_rows(), *on_meshes)
    for pattern in patterns:
        # For an entry point that lacks an ability, rows have other names.
        if find_row(pattern) or find_case_on(pattern) or any(Selection(rules=(pattern,)).holds(case) for case in cases):
            continue
        words = {case.id if "/" in pattern else case.rule for case in cases}
        begun = sorted({word.partition(".")[0] for word in words if word.startswith(f"{pattern}.")})
        # Quote the pattern, so that the shell does not expand it.
        hint = suggest_names([f"'{begun[0]}.*'"]) if begun else suggest_known(pattern, sorted(words))
        msg = f"No rule and no case matches {pattern!r}.{hint} `gradclip rules` lists the rules."
        raise click.UsageError(msg)


def _refuse_records_of_one_name(targets: Sequence[Target]) -> None:
    taken: dict[str, str] = {}
    for target in targets:
        name = _choose_file_name(target)
        if name in taken:
            msg = f"{taken[name]} and {target.label} would both be written to {name}: check them one after the other."
            raise click.UsageError(msg)
        taken[name] = target.label


def _search(target: Target, selection: Selection, how: RunOptions) -> list[PlannedCell]:
    """Return the smallest rows that fail, which the run then asks like any others, and print their names."""
    connection = target.connect(how.timeout)
    try:
        description = connection.description
        knowledge = load_knowledge(target.name, description)

        def ask(planned: PlannedCell) -> Cell:
            return run_cell(connection, planned, how.timeout, knowledge)

        searched = search_rows(description.subjects, selection, how.row_count * DEEP, how.seed, ask, target.label)
    finally:
        connection.close()
    say_line(
        f"{target.label}: {format_count(searched.asked, 'row')} asked; different failures: {len(searched.failing)}"
    )
    for cell in searched.failing:
        say_line(f"  {cell.entry_point.name}: --case {cell.case.id}")
    return searched.failing


def _say_how_to_go_on(target: Target, output: str | None) -> None:
    say_line(f"Interrupted: the run of {target.label} is incomplete.")
    if output is not None:
        path = _choose_path(output, target)
        say_line(f"To go on where it stopped, repeat the command with --resume {path} instead of -o.")


def _read_earlier(resume: str, output: str | None, adapters: Sequence[str]) -> Run:
    """Return the part of a run that was cut off. Refuse a command line that asks for something else, too."""
    if output is not None or len(adapters) > 1:
        msg = "--resume FILE goes on with one run, and writes its record to FILE: name one adapter, and no -o."
        raise click.UsageError(msg)
    journal = name_journal(Path(resume))
    if not os.path.isfile(journal):
        msg = f"There is no {journal}, which a run that is cut off leaves: nothing is there to go on with."
        raise click.UsageError(msg)
    try:
        return read_partial(journal)
    except RecordError as error:
        raise click.UsageError(str(error)) from error


def _choose_path(output: str, target: Target) -> Path:
    """Return the path of an adapter's record. Make the folder if `output` names one."""
    path = Path(output)
    if not _is_folder(output):
        return path
    path.mkdir(parents=True, exist_ok=True)
    return path / _choose_file_name(target)


def _is_folder(output: str) -> bool:
    # `Path` drops the final slash, which says that a folder is meant.
    return os.path.isdir(Path(output)) or output.endswith(("/", os.sep))


def _choose_file_name(target: Target) -> str:
    """Return the name of an adapter's record in a folder, such as `torch.jsonl` or `optax-0.1.9.jsonl`."""
    version = f"-{target.version}" if target.version else ""
    return f"{Path(target.name).name.removesuffix('.py').replace(':', '.')}{version}.jsonl"
