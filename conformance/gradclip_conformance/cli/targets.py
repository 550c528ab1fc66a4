"""What the verbs that run adapters share: which adapters, in which Python, started how."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gradclip_adapters import registry
from gradclip_adapters.contract import DTYPES, OPERATIONS
from gradclip_reports.values import plain

from ..judge.model import StartError
from ..known.claims import load_claims
from ..known.pins import load_deviations
from ..run.environments import EnvironmentProblem, framework_is_here, make_environment, recipes
from ..run.host_process import CASE_SECONDS, START_SECONDS, HostProcess, host_command, start_seconds
from ..run.isolation import PlainOptions, parse_size

__all__ = [
    "Target",
    "TargetOptions",
    "chosen_targets",
    "did_you_mean",
    "say",
    "say_that_it_does_not_start",
    "target_options",
]


@dataclass(frozen=True)
class Target:
    """One adapter, and how its host is started."""

    name: str
    #: The arguments are the time limit of a case.
    start: Callable[[float], HostProcess]

    def connect(self, timeout: float = CASE_SECONDS) -> HostProcess:
        """Start a host; the time limit of a case bounds the calls that are made before all cases, too."""
        return self.start(timeout)


@dataclass(frozen=True)
class TargetOptions:
    """The options that say what is called, where a framework is and what its process may use."""

    operation: str | None = None
    dtypes: tuple[str, ...] = ()
    pythons: tuple[str, ...] = ()
    command: str | None = None
    venv: bool = False
    memory: int | None = None


if TYPE_CHECKING:
    _Choice = click.Choice[str]
else:
    # Before click 8.2 it takes no type.
    _Choice = click.Choice


class _Operation(_Choice):
    """An operation, also without `clip_by_`, and with hyphens as rules have them."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Return the operation's full name."""
        name = str(value).lower().replace("-", "_")
        full = name if name.startswith("clip_by_") else f"clip_by_{name}"
        return super().convert(full if full in OPERATIONS else value, param, ctx)


def _size_of(context: click.Context, parameter: click.Parameter, value: str | None) -> int | None:
    """Return a size of memory as a number of bytes."""
    try:
        return None if value is None else parse_size(value)
    except ValueError as error:
        raise click.BadParameter(str(error), context, parameter) from error


_OPTIONS = (
    click.option("--op", "operation", type=_Operation(OPERATIONS), help="Only this operation."),
    click.option("--dtype", "dtypes", multiple=True, type=click.Choice(list(DTYPES)), help="Only these dtypes."),
    click.option(
        "--python",
        "pythons",
        metavar="[ADAPTER=]EXE",
        multiple=True,
        help="The Python that has the framework; may be given once for each adapter, as torch=/path/python.",
    ),
    click.option(
        "--command",
        metavar="CMD",
        help='Any launcher of a host process, such as "ssh gpu1 python -m gradclip_adapters.host".',
    ),
    click.option("--venv", is_flag=True, help="Make (once) a virtual environment for each framework named."),
    click.option(
        "--memory", callback=_size_of, metavar="SIZE", help="Memory that a host may allocate, as 4G (Linux only)."
    ),
)


def target_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command these options, as one argument `options`."""
    names = tuple(TargetOptions.__dataclass_fields__)

    @functools.wraps(function)
    def command(*arguments: Any, **given: Any) -> Any:
        options = TargetOptions(**{name: given.pop(name) for name in names})
        return function(*arguments, options=options, **given)

    decorated: Callable[..., Any] = command
    for option in reversed(_OPTIONS):
        decorated = option(decorated)
    return decorated


def chosen_targets(names: Sequence[str], options: TargetOptions) -> list[Target]:
    """Return the adapters that were named, or all whose framework is installed here.

    Raises
    ------
    click.UsageError
        When a name is unknown, the options contradict each other, or the launcher is none.
    """
    if sum((bool(options.pythons), options.command is not None, options.venv)) > 1:
        msg = "--python, --command and --venv exclude each other."
        raise click.UsageError(msg)
    if options.command is not None:
        _refuse_no_command(options.command)
    chosen = list(dict.fromkeys(names)) or [name for name in registry.installed() if framework_is_here(name)]
    for name in chosen:
        _refuse_what_is_no_target(name, options)
        _refuse_what_is_kept_badly(name)
    by_name, general = _split_pythons(options.pythons, chosen)
    return [Target(name, _starter(name, by_name.get(name, general), options)) for name in chosen]


def _refuse_what_is_no_target(name: str, options: TargetOptions) -> None:
    kind = registry.kind_of(name)
    if kind == "function" and options.operation is None:
        msg = f"{name!r} is a plain function: say with --op which operation it performs ({', '.join(OPERATIONS)})."
        raise click.UsageError(msg)
    # A launcher may know adapters and files that this machine does not.
    if options.command is not None:
        return
    known = registry.installed()
    if kind == "name" and name not in known:
        raise click.UsageError(_no_adapter(name, sorted(known)))
    if kind == "file" and not Path(name).exists():
        msg = f"There is no file {name!r} (looked in {Path.cwd()})."
        raise click.UsageError(msg)


def _no_adapter(name: str, known: Sequence[str]) -> str:
    text = f"There is no adapter {name!r}."
    if f"reference-{name}" in known:
        return (
            f"{text} reference-{name} checks this project's own functions on {name}. To check functions of {name} or "
            "of a library on it, write an adapter (a Python file, see the README) and name the file."
        )
    hint = did_you_mean(name, known)
    return f"{text}{hint} Known: {', '.join(known)}. A file ends in .py, a function is module:name."


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a sentence that names the nearest known words, or nothing."""
    near = get_close_matches(word, list(known), 3)
    return f" Did you mean {' or '.join(near)}?" if near else ""


def _refuse_no_command(command: str) -> None:
    try:
        words = host_command(command=command)
    except ValueError as error:
        msg = f"--command {command!r} cannot be split into words: {error}."
        raise click.UsageError(msg) from error
    if not words:
        msg = "--command is empty: name a launcher of a host process."
        raise click.UsageError(msg)


def _refuse_what_is_kept_badly(name: str) -> None:
    """Refuse pins and claims that cannot be read, before anything runs."""
    try:
        load_claims(name)
        load_deviations(name)
    except (ValueError, OSError) as error:
        raise click.UsageError(str(error)) from error


def _split_pythons(pythons: Sequence[str], chosen: Sequence[str]) -> tuple[dict[str, str], str | None]:
    by_name: dict[str, str] = {}
    general: str | None = None
    for value in pythons:
        name, equals, executable = value.partition("=")
        if equals and name in chosen:
            by_name[name] = executable
        elif general is None:
            general = value
        else:
            msg = f"--python is given twice without an adapter's name: {general!r} and {value!r}. Write ADAPTER=EXE."
            raise click.UsageError(msg)
    return by_name, general


def _starter(name: str, python: str | None, options: TargetOptions) -> Callable[[float], HostProcess]:
    arguments = [name]
    is_function = registry.kind_of(name) == "function"
    if is_function:
        arguments += PlainOptions(str(options.operation), options.dtypes, memory=options.memory).arguments()
    elif options.memory is not None:
        arguments += ["--memory", str(options.memory)]

    def start(timeout: float) -> HostProcess:
        executable = python
        if options.venv:
            try:
                executable = make_environment(name)
            except EnvironmentProblem as problem:
                raise StartError("no-host", str(problem)) from problem
        command = [*host_command(executable, options.command), *arguments]
        limit = start_seconds(timeout) if is_function else START_SECONDS
        try:
            return HostProcess(command, start_seconds=limit, call_seconds=timeout)
        except StartError as error:
            if is_function and error.kind == "start-timeout":
                text = f"importing its module took longer than {limit:g} s (20 s, and the time limit of a case)"
                raise StartError(error.kind, text) from error
            raise

    return start


def say_that_it_does_not_start(target: Target, error: StartError) -> None:
    """Say why an adapter does not start, and where its framework may come from."""
    text = f"{target.name} does not start ({error.kind}): {error}"
    if error.kind == "missing-framework":
        recipe = recipes().get(target.name)
        venv = "--venv makes an environment for it; " if recipe is not None and recipe.requirements else ""
        text = f"{text.rstrip('.')}. {venv}--python EXE names a Python that has it."
    say(text)


def say(text: str) -> None:
    """Print a line for the person at the terminal, beside what is written to standard output.

    What a terminal obeys is escaped: the line may hold what a host or a record says, or what a file is called.
    """
    click.echo(plain(text), err=True)
    sys.stderr.flush()
