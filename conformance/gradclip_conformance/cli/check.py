"""Define the verb `gradclip check`: run every case against adapters, and show the results."""

from __future__ import annotations

import contextlib
import functools
import io
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TextIO, cast

import click

from gradclip_adapters.paths import folder_exists
from gradclip_reports.progress import progress_bar
from gradclip_reports.records import Cell, Run
from gradclip_reports.render import FORMATS

from ..cases.catalogue import list_all_cases
from ..cases.model import Case
from ..cases.patterns import suggest_known, suggest_names
from ..cases.regressions import write_toml
from ..covering.rows import find_row, list_all_rows
from ..judge.model import Connection, StartError
from ..known.claims import load_claims_of
from ..known.faults import find_faults
from ..known.known_causes import load_known
from ..oracle.formula import Formula
from ..run.abilities import AbilityProbes
from ..run.plan import PlannedCell, Selection
from ..run.runner import CASE_SECONDS, RunRequest, run_adapter, run_cell
from ..run.search import search
from .rules import complete_rule
from .summary import choose_exit_code, print_runs
from .targets import (
    Target,
    TargetOptions,
    add_target_options,
    choose_targets,
    complete_target,
    say,
    say_that_it_does_not_start,
)

__all__ = ["check"]


def _refuse_nan(context: click.Context, parameter: click.Parameter, value: float) -> float:
    # Every comparison with NaN is false, so that `FloatRange` lets it pass.
    if math.isnan(value):
        msg = f"{value} is not a number of seconds."
        raise click.BadParameter(msg, context, parameter)
    return value


def _parse_formula(context: click.Context, parameter: click.Parameter, value: str | None) -> Formula | None:
    if value is None:
        return None
    try:
        return Formula.parse(value)
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from error


@dataclass(frozen=True)
class RunOptions:
    """The options that choose the cases and how to run them."""

    rules: tuple[str, ...]
    jobs: int
    timeout: float
    deep: bool
    seed: int
    formula: Formula | None
    stage: str


_RUN_OPTIONS = (
    click.option(
        "--rule",
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
        help="The time limit of a case in seconds; inf for no limit. A first compilation has 4 times as long.",
    ),
    click.option("--deep", is_flag=True, help="Also search for inputs that fail, with hypothesis."),
    click.option(
        "--formula",
        metavar="KIND:EPS",
        callback=_parse_formula,
        help="The formula that the functions are meant to have: coefficient:1e-6.",
    ),
    click.option("--seed", default=0, show_default=True, type=int, help="The seed of the search of --deep."),
    click.option("--quick", "stage", flag_value="quick", help="Test fewer combinations, for quick answers."),
    click.option("--thorough", "stage", flag_value="thorough", help="Test more combinations; takes many minutes."),
)


def _add_run_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add these options to a command, which gets them as one argument `how`."""
    names = tuple(RunOptions.__dataclass_fields__)

    @functools.wraps(function)
    def run_command(*arguments: Any, **given: Any) -> Any:
        given["stage"] = given["stage"] or "default"
        how = RunOptions(**{name: given.pop(name) for name in names})
        return function(*arguments, how=how, **given)

    decorated: Callable[..., Any] = run_command
    for option in reversed(_RUN_OPTIONS):
        decorated = option(decorated)
    return decorated


@click.command(short_help="Check adapters against every case.")
@click.argument("adapters", nargs=-1, metavar="[ADAPTER|FILE|MODULE:FN]...", shell_complete=complete_target)
@add_target_options
@_add_run_options
@click.option("-o", "--output", metavar="FILE", help="Write the record (JSON Lines). FILE may be a folder.")
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
    format_: str,
    verbose: bool,
) -> None:
    """Check adapters against every case. Without a name, check all adapters whose framework is installed.

    ADAPTER is a name (`gradclip adapters` lists them), FILE is a Python file that defines an adapter, MODULE:FN is a
    plain function on NumPy arrays. ADAPTER@VERSION asks for a version of the framework, such as optax@0.1.9, or for the
    newest one that begins so. With several adapters, -o FILE holds one run after another. If -o names a folder (an
    existing one, or a name that ends in /), each adapter gets a file there.

    \b
    gradclip check numpy torch --venv -o records/
    gradclip check torch --python ~/envs/torch/bin/python
    gradclip check optax@0.1.9 paddle@2.6 --venv
    gradclip check torch --rule 'global-norm.*' --dtype float16
    gradclip check my.module:clip --op clip_by_norm --deep --seed 7
    gradclip check torch --command "ssh gpu1 python -m gradclip_adapters.host"
    """  # noqa: D301 - click needs the character itself, and a raw docstring would hide it
    targets = choose_targets(adapters, options)
    selection = options.select_cells(how.rules)
    _refuse_patterns_without_a_case(how.rules)
    if output is not None and _is_folder(output):
        _refuse_records_of_one_name(targets)
    runs: list[Run] = []
    faults: list[str] = []
    problems = 0
    for target in targets:
        try:
            run = _run(target, selection, how, output, first=not runs)
            runs.append(run)
            # A narrowed run leaves out cells, so it cannot judge what is known.
            if (selection, how.stage) == (Selection(), "default"):
                faults += find_faults(run, target.version)
        except StartError as error:
            problems += 1
            say_that_it_does_not_start(target, error)
        except KeyboardInterrupt:
            say(f"Interrupted: the run of {target.label} is incomplete, and so is its record.")
            print_runs(runs, format_)
            sys.exit(3)
        except OSError as error:
            say(f"Cannot write the record of {target.label}: {error}")
            problems += 1
    print_runs(runs, format_, [output] if output else [], verbose=verbose)
    for run in runs:
        if not run.is_judged:
            say(_describe_unjudged(run))
    for fault in faults:
        say(fault)
    sys.exit(max(choose_exit_code(runs, problems), 1 if faults else 0))


def _run(target: Target, selection: Selection, how: RunOptions, output: str | None, first: bool) -> Run:
    def connect() -> Connection:
        return target.connect(how.timeout)

    found = _search(target, selection, how.seed, how.timeout) if how.deep else ()
    seed = how.seed if how.deep else None
    request = RunRequest(
        target.name,
        connect,
        selection,
        how.timeout,
        how.jobs,
        sys.argv[1:],
        seed,
        found,
        how.formula,
        how.stage,
        target.version,
    )
    with _record(output, target, first=first) as stream, progress_bar() as progress:
        return run_adapter(request, stream, progress)


def _describe_unjudged(run: Run) -> str:
    name = run.header.adapter
    if not run.cells:
        return f"{name}: nothing was judged, because no chosen case is about its operations and dtypes."
    return f"{name}: nothing was judged, because each of {len(run.cells)} cells is unsupported or unspecified."


def _refuse_patterns_without_a_case(patterns: Sequence[str]) -> None:
    cases = (*list_all_cases(), *list_all_rows())
    for pattern in patterns:
        # For a subject that lacks an ability, rows have other names.
        if find_row(pattern) or any(Selection(rules=(pattern,)).holds(case) for case in cases):
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


def _search(target: Target, selection: Selection, seed: int, timeout: float) -> list[Case]:
    """Return the cases that `--deep` adds, and print each failing input in the form of `cases/regressions.toml`."""
    try:
        import hypothesis
    except ModuleNotFoundError as error:
        msg = "--deep needs hypothesis, which is not installed; run: python -m pip install hypothesis"
        raise click.UsageError(msg) from error
    del hypothesis
    connection = target.connect(timeout)
    try:
        description = connection.description
        claims = load_claims_of(target.name, description.version, description.environment)
        known = load_known(target.name)
        probes = AbilityProbes()

        def ask(planned: PlannedCell) -> Cell:
            return run_cell(connection, planned, timeout, claims, known, probes)

        searched = search(connection.description.subjects, selection, seed, ask, title=target.label)
    finally:
        connection.close()
    say(f"{target.label}: {searched.tried} inputs tried; searches that found a failing input: {len(searched.failing)}")
    for case in searched.failing:
        say(write_toml(case))
    return searched.cases


@contextlib.contextmanager
def _record(output: str | None, target: Target, first: bool) -> Iterator[TextIO]:
    """Open the stream for one adapter's record; the file is written only after the adapter has started."""
    if output is None:
        yield io.StringIO()
        return
    path = Path(output)
    if _is_folder(output):
        path.mkdir(parents=True, exist_ok=True)
        path /= _choose_file_name(target)
        first = True
    with _LateFile(path, "w" if first else "a") as stream:
        yield cast(TextIO, stream)


def _is_folder(output: str) -> bool:
    # `Path` drops the final slash, which says that a folder is meant.
    return folder_exists(output) or output.endswith(("/", os.sep))


def _choose_file_name(target: Target) -> str:
    """Return the name of an adapter's record in a folder, such as `torch.jsonl` or `optax-0.1.9.jsonl`."""
    version = f"-{target.version}" if target.version else ""
    return f"{Path(target.name).name.removesuffix('.py').replace(':', '.')}{version}.jsonl"


class _LateFile(io.TextIOBase):
    """A file that is opened at the first write, so that a run that never begins keeps the record of an earlier run."""

    def __init__(self, path: Path, mode: Literal["w", "a"]) -> None:
        self._path, self._mode = path, mode
        self._stream: TextIO | None = None

    def write(self, text: str, /) -> int:
        if self._stream is None:
            self._stream = self._path.open(self._mode, encoding="utf-8")
        return self._stream.write(text)

    def flush(self) -> None:
        if self._stream is not None:
            self._stream.flush()

    def close(self) -> None:
        super().close()
        if self._stream is not None:
            self._stream.close()
