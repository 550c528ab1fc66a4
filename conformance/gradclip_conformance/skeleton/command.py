"""Define the verb `gradclip new-adapter`: write the files of a new adapter."""

from __future__ import annotations

import re
import sys
from importlib.machinery import PathFinder
from pathlib import Path

import click

from gradclip_adapters.operations import OPERATIONS

from .files import STYLES, write_files

#: The name becomes the name of a file, and stands in Python, TOML and YAML.
NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,59}")


@click.command("new-adapter", short_help="Write the files of a new adapter.")
@click.argument("name")
@click.option(
    "--style",
    type=click.Choice(sorted(STYLES)),
    default="functional",
    show_default=True,
    help="Whether the clip returns new tensors, changes the tensors, or belongs to an optimizer.",
)
@click.option(
    "--op",
    "operation",
    type=click.Choice(OPERATIONS),
    metavar="OPERATION",
    default="clip_by_global_norm",
    show_default=True,
    help=f"The operation of the clip function: {', '.join(OPERATIONS)}.",
)
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=".",
    show_default=True,
    help="The folder of the files.",
)
def new_adapter(name: str, style: str, operation: str, folder: Path) -> None:
    """Write NAME.py, an adapter that runs, its claims, its known failures, and a job for GitHub.

    Fill in one function of NAME.py; until then, a stand-in clips. The file lists all abilities, with the number of
    cells that each ability adds.

    \b
    gradclip new-adapter mylib_adapter --style in-place
    gradclip smoke ./mylib_adapter.py
    """  # noqa: D301 - click needs the character itself, and a raw docstring would hide it
    if not NAME.fullmatch(name):
        msg = f"NAME is {name!r}: use at most 60 ASCII letters, digits, `_` and `-`, and begin with a letter or `_`."
        raise click.UsageError(msg)
    if style == "in-place" and OPERATIONS[operation].sums_examples:
        msg = "A sum over examples has another shape than the gradients, so no function writes it into them."
        raise click.UsageError(msg)
    if style == "optimizer" and OPERATIONS[operation].is_relative:
        msg = "A step from parameters that are zero shows no clip relative to them: choose another style."
        raise click.UsageError(msg)
    texts = write_files(name, style, operation)
    taken = [str(folder / file) for file in texts if (folder / file).exists() or (folder / file).is_symlink()]
    if taken:
        msg = f"{', '.join(taken)} {'exists' if len(taken) == 1 else 'exist'} already. Nothing was written."
        raise click.UsageError(msg)
    if _is_taken(name, folder):
        msg = f"There is a module {name}, which {name}.py could not import. Choose a name such as {name}_adapter."
        raise click.UsageError(msg)
    for file, text in texts.items():
        try:
            # "x" fails for a file that another process has written in the meantime.
            with (folder / file).open("x", encoding="utf-8") as stream:
                stream.write(text)
        except OSError as problem:
            msg = f"Cannot write {folder / file}: {problem}"
            raise click.ClickException(msg) from problem
        click.echo(f"wrote {folder / file}")
    click.echo(f"Fill in `clip` in {folder / name}.py. Until then, a stand-in clips.")


def _is_taken(name: str, folder: Path) -> bool:
    # `importlib.util.find_spec` would also find the adapters that this process has loaded.
    found = PathFinder.find_spec(name) or PathFinder.find_spec(name, [str(folder)])
    return found is not None or name in sys.stdlib_module_names
