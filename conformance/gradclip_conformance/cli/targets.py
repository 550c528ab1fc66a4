"""What the verbs that run adapters share: which adapters, in which Python, started how."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from gradclip_adapters import registry
from gradclip_adapters.contract import DTYPES, OPERATIONS

from ..judge.model import StartError
from ..known.claims import load_claims
from ..known.pins import load_deviations
from ..run.environments import EnvironmentProblem, framework_is_here, make_environment, recipes
from ..run.host_process import HostProcess, host_command

__all__ = ["Target", "chosen_targets", "python_options", "say", "say_that_it_does_not_start"]


@dataclass(frozen=True)
class Target:
    """One adapter, and how its host is started."""

    name: str
    connect: Callable[[], HostProcess]


def python_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say where a framework is."""
    for option in (
        click.option("--venv", is_flag=True, help="Make (once) a virtual environment for each framework named."),
        click.option(
            "--command",
            metavar="CMD",
            help='Any launcher of a host process, such as "ssh gpu1 python -m gradclip_adapters.host".',
        ),
        click.option(
            "--python",
            "pythons",
            metavar="[ADAPTER=]EXE",
            multiple=True,
            help="The Python that has the framework; may be given once for each adapter, as torch=/path/python.",
        ),
        click.option("--dtype", "dtypes", multiple=True, type=click.Choice(list(DTYPES)), help="Only these dtypes."),
        click.option("--op", "operation", type=click.Choice(OPERATIONS), help="Only this operation."),
    ):
        function = option(function)
    return function


def chosen_targets(
    names: Sequence[str],
    *,
    operation: str | None,
    dtypes: Sequence[str],
    pythons: Sequence[str],
    command: str | None,
    venv: bool,
) -> list[Target]:
    """The adapters that were named, or all whose framework is installed here.

    Raises
    ------
    click.UsageError
        When a name is unknown, the options contradict each other, or `command` is none.
    """
    if sum((bool(pythons), command is not None, venv)) > 1:
        msg = "--python, --command and --venv exclude each other."
        raise click.UsageError(msg)
    if command is not None:
        _refuse_no_command(command)
    known = registry.installed()
    chosen = list(dict.fromkeys(names)) or [name for name in known if framework_is_here(name)]
    for name in chosen:
        kind = registry.kind_of(name)
        # A launcher may know adapters and files that this machine does not.
        if kind == "name" and name not in known and command is None:
            msg = (
                f"There is no adapter {name!r}. Known: {', '.join(sorted(known))}. "
                "A file ends in .py, a function is module:name."
            )
            raise click.UsageError(msg)
        if kind == "file" and not Path(name).exists() and command is None:
            msg = f"There is no file {name!r} (looked in {Path.cwd()})."
            raise click.UsageError(msg)
        if kind == "function" and operation is None:
            msg = f"{name!r} is a plain function: say with --op which operation it performs ({', '.join(OPERATIONS)})."
            raise click.UsageError(msg)
        _refuse_what_is_kept_badly(name)
    by_name, general = _split_pythons(pythons, chosen)
    return [
        Target(name, _connector(name, by_name.get(name, general), command, venv, operation, dtypes)) for name in chosen
    ]


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


def _connector(
    name: str,
    python: str | None,
    command: str | None,
    venv: bool,
    operation: str | None,
    dtypes: Sequence[str],
) -> Callable[[], HostProcess]:
    def connect() -> HostProcess:
        executable = python
        if venv:
            try:
                executable = make_environment(name)
            except EnvironmentProblem as problem:
                raise StartError("no-host", str(problem)) from problem
        arguments = [name]
        if registry.kind_of(name) == "function":
            arguments += ["--op", str(operation), *(word for dtype in dtypes for word in ("--dtype", dtype))]
        return HostProcess([*host_command(executable, command), *arguments])

    return connect


def say_that_it_does_not_start(target: Target, error: StartError) -> None:
    """Why an adapter does not start, and where its framework may come from."""
    recipe = recipes().get(target.name)
    known = error.kind == "missing-framework" and recipe is not None and recipe.requirements
    text = f"{target.name} does not start ({error.kind}): {error}"
    if known:
        text = f"{text.rstrip('.')}. --venv makes an environment for it; --python names a Python that has it."
    say(text)


def say(text: str) -> None:
    """A line for the person at the terminal, beside what is written to standard output."""
    click.echo(text, err=True)
    sys.stderr.flush()
