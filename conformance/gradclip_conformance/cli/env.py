"""Define the verbs `gradclip env list` and `gradclip env remove`, about the environments that `--venv` makes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from gradclip_reports.layout import find_width, wrap_text
from gradclip_reports.progress import say_line
from gradclip_reports.values import escape_line

from ..cases.patterns import suggest_known
from ..run.environments.folders import (
    Environment,
    EnvironmentProblem,
    State,
    find_environments_folder,
    list_environments,
    remove_environment,
)
from ..run.environments.making import describe_fault


@click.group(short_help="List or remove the environments that --venv has made.")
def env() -> None:
    """List or remove the virtual environments that --venv has made.

    They are in the folder that the variable GRADCLIP_VENVS names, or else in the user's cache. --venv makes a removed
    environment again.
    """


@env.command("list", short_help="List the environments, with their sizes.")
def list_() -> None:
    """List the environments: their sizes, whether they are ready, and what is installed in them."""
    found = list_environments()
    if not found:
        click.echo(f"There are no environments in {escape_line(str(find_environments_folder()))}.")
        return
    click.echo(escape_line(str(find_environments_folder())))
    total = 0
    for environment in found:
        size = measure_size(environment.folder)
        total += size
        name = escape_line(environment.folder.name)
        click.echo(f"{click.style(name, bold=True)}  {show_size(size)}, {_describe_state(environment)}")
        if environment.requirements:
            made_of = escape_line(", ".join(environment.requirements))
            click.echo("\n".join(wrap_text(made_of, find_width(), "    ", "    ")))
    click.echo(f"{show_size(total)} in all")


def _describe_state(environment: Environment) -> str:
    if environment.state is State.UNFINISHED:
        return "unfinished"
    fault = describe_fault(environment)
    return "ready" if fault is None else escape_line(fault)


@env.command(short_help="Remove environments.")
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option("--all", "everything", is_flag=True, help="Remove all environments.")
@click.option("--stale", is_flag=True, help="Remove those that are unfinished, broken, or of another recipe.")
def remove(names: tuple[str, ...], everything: bool, stale: bool) -> None:
    """Remove environments by the names that `gradclip env list` shows."""
    if sum((bool(names), everything, stale)) != 1:
        msg = "Name the environments to remove, or give one of --all and --stale."
        raise click.UsageError(msg)
    chosen = {one.folder.name: one for one in list_environments()}
    for name in names:
        if name not in chosen:
            msg = f"There is no environment {name!r}.{suggest_known(name, sorted(chosen))}"
            raise click.UsageError(msg)
    wanted = [
        one
        for name, one in chosen.items()
        if everything or name in names or (stale and (one.state is not State.READY or describe_fault(one) is not None))
    ]
    if not wanted:
        click.echo("There is nothing to remove.")
    failed = False
    for one in wanted:
        size = measure_size(one.folder)
        try:
            remove_environment(one)
        except EnvironmentProblem as problem:
            say_line(str(problem))
            failed = True
        else:
            click.echo(f"removed {escape_line(one.folder.name)}, {show_size(size)}")
    sys.exit(3 if failed else 0)


def measure_size(folder: Path) -> int:
    """Return the number of bytes of all files in a folder. Links count as themselves."""
    total = 0
    for here, _, files in os.walk(folder):
        for file in files:
            try:
                total += Path(here, file).lstat().st_size
            except FileNotFoundError:  # another process removes or installs files
                continue
    return total


def show_size(size: int) -> str:
    """Return a number of bytes in megabytes."""
    return f"{size / 1e6:,.0f} MB"
