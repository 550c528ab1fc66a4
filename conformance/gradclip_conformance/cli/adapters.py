"""Define the verb `gradclip adapters`: list the adapters, and where their frameworks are."""

from __future__ import annotations

import textwrap

import click

from gradclip_adapters import registry

from ..run.environments.recipes import is_framework_here, list_versions, read_recipes


@click.command(short_help="List the adapters, and where their frameworks are.")
def adapters() -> None:
    """List the adapters: their names, their modules, and whether this Python has their framework."""
    for name, where in sorted(registry.list_installed().items()):
        here = is_framework_here(name)
        click.echo(f"{click.style(name, bold=True)}  {'its framework is here' if here else 'not here'}")
        lines = [where, *([] if here else [_describe_venv(name)])]
        # Of one version, the requirements say which.
        if len(versions := list_versions(name)) > 1:
            lines.append(f"versions: {', '.join(versions)} (for example {name}@{versions[-1]})")
        for line in lines:
            click.echo(
                textwrap.fill(line, 78, initial_indent="    ", subsequent_indent="      ", break_on_hyphens=False)
            )


def _describe_venv(name: str) -> str:
    recipe = read_recipes().get(name)
    if recipe is None or not recipe.requirements:
        return "install its framework, or name a Python that has it with --python"
    python = f"Python {recipe.python}, " if recipe.python else ""
    return f"--venv makes an environment for it: {python}{', '.join(recipe.packages)}"
