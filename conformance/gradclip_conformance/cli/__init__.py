"""Define the command `gradclip`. Each verb has its own module."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import signal
import sys
import textwrap
from collections.abc import Iterator, Sequence
from importlib import import_module
from typing import Any

try:
    import click
except ImportError as missing:  # pragma: no cover - seen by whoever installs the core alone
    sys.exit(f"The command line needs the extra `check`: pip install 'gradclip-spec[check]' ({missing})")

from gradclip_reports.layout import uses_color

from ..cases.patterns import suggest_known

__all__ = ["VERBS", "gradclip", "main"]

#: Each verb's command is in the module of the same name, which is imported when it is needed.
VERBS = (
    *("check", "smoke", "adapters", "rules", "show", "summary", "report", "repro", "diff", "expectations", "accuracy"),
    *("new-adapter", "env"),
)
#: The modules of commands that are not in this folder.
ELSEWHERE = {"new-adapter": "gradclip_conformance.skeleton.command"}


class LazyGroup(click.Group):
    """A group that imports a command when it is needed."""

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Read the command's own arguments."""
        with _escape_errors():
            _refuse_impossible_characters(args)
            context = super().make_context(info_name, args, parent, **extra)
        if sys.stdout.isatty() and not uses_color(sys.stdout):
            # click removes escape codes for a pipe, but not if `NO_COLOR` is set, and not for a dumb terminal.
            context.color = False
        return context

    def invoke(self, ctx: click.Context) -> Any:
        """Read the arguments of a verb, and run it."""
        with _escape_errors():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted({*super().list_commands(ctx), *VERBS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by its name, or None if there is none."""
        if cmd_name in VERBS and cmd_name not in self.commands:
            command: click.Command = getattr(
                import_module(ELSEWHERE.get(cmd_name, f".{cmd_name}"), __name__), cmd_name.replace("-", "_")
            )
            self.add_command(command)
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command. For an unknown one, suggest the nearest verb."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            ctx.fail(f"No such command {name!r}.{suggest_known(name, VERBS)}")
        return super().resolve_command(ctx, args)


def _refuse_impossible_characters(arguments: Sequence[str]) -> None:
    """Refuse NUL and lone surrogates, because a file name with such a character makes every call raise a ValueError.

    No shell passes such a character, but another program may call the command with any texts.
    """
    for argument in arguments:
        try:
            passed = b"\0" not in os.fsencode(argument)
        except UnicodeEncodeError:
            passed = False
        if not passed:
            msg = f"The argument {argument!r} holds a character that no file name can have."
            raise click.UsageError(msg)


@contextlib.contextmanager
def _escape_errors() -> Iterator[None]:
    """Escape control characters in errors of usage, which repeat arguments, and wrap the errors for a terminal."""
    try:
        yield
    except click.ClickException as error:
        # Import this only when needed, because it imports NumPy.
        from gradclip_reports.values import escape_text

        text = _wrap(escape_text(error.format_message()))
        error.format_message = lambda: text  # type: ignore[method-assign]
        raise


def _wrap(text: str) -> str:
    """Wrap a text at the width of a terminal. In other output, keep it on one line, which can be searched."""
    if not sys.stderr.isatty():
        return text
    first = "Error: "
    width = shutil.get_terminal_size().columns
    wrapped = textwrap.wrap(first + text, width, break_long_words=False, break_on_hyphens=False)
    return "\n".join(wrapped).removeprefix(first)


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="gradclip-spec", prog_name="gradclip")
def gradclip() -> None:
    """Check gradient clipping against its specification.

    \b
    gradclip check                  every adapter whose framework is installed
    gradclip check torch --venv     one framework, in an environment made for it
    gradclip check ./my_adapter.py  your own adapter
    gradclip check my.module:clip --op clip_by_global_norm
                                    a plain function on NumPy arrays
    gradclip show global-norm.at-threshold
                                    a rule, its cases and what they expect

    Exit codes: 0 all as expected; 1 something is not as expected; 2 wrong usage; 3 a fault of the suite or of an
    adapter, an adapter that does not start, an incomplete run, or a run in which nothing was judged.
    """  # noqa: D301 - click needs the character itself, and a raw docstring would hide it


def main() -> None:
    """Run the command. Treat a request to terminate as Ctrl-C, so that no host process is left behind."""
    signal.signal(signal.SIGTERM, _interrupt)
    for stream in (sys.stdout, sys.stderr):
        # A character that the encoding lacks must not end the command.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    gradclip(prog_name="gradclip")


def _interrupt(number: int, frame: Any) -> None:
    del number, frame
    raise KeyboardInterrupt
