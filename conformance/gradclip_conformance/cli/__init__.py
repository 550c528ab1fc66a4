"""The command `gradclip`: one module a verb."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from difflib import get_close_matches
from importlib import import_module
from typing import Any

try:
    import click
except ImportError as missing:  # pragma: no cover - seen by whoever installs the core alone
    sys.exit(f"The command line needs the extra `check`: pip install 'gradclip-spec[check]' ({missing})")

__all__ = ["VERBS", "gradclip", "main"]

#: Each verb is the command of its name in the module of its name, imported when it is asked for.
VERBS = ("check", "smoke", "adapters", "rules", "show", "summary", "repro", "expectations", "accuracy")


class LazyGroup(click.Group):
    """A group whose commands are imported when they are needed: `--version` and one verb import no other."""

    def make_context(self, *args: Any, **keywords: Any) -> click.Context:
        """Read the command's own arguments."""
        with _escape_errors():
            return super().make_context(*args, **keywords)

    def invoke(self, ctx: click.Context) -> Any:
        """Read the arguments of a verb, and run it."""
        with _escape_errors():
            return super().invoke(ctx)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the names of all commands."""
        return sorted({*super().list_commands(ctx), *VERBS})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command by its name, or None where there is none."""
        if cmd_name in VERBS and cmd_name not in self.commands:
            command: click.Command = getattr(import_module(f".{cmd_name}", __name__), cmd_name)
            self.add_command(command)
        return super().get_command(ctx, cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve a command, and name the nearest verb where there is none."""
        name = args[0]
        if not name.startswith("-") and self.get_command(ctx, name) is None:
            near = get_close_matches(name, VERBS, 1)
            ctx.fail(f"No such command {name!r}." + (f" Did you mean {near[0]!r}?" if near else ""))
        return super().resolve_command(ctx, args)


@contextlib.contextmanager
def _escape_errors() -> Iterator[None]:
    """Escape what a terminal obeys in errors of usage: they repeat arguments, which may be names of files."""
    try:
        yield
    except click.ClickException as error:
        # Imported where it is needed: it imports NumPy.
        from gradclip_reports.values import plain

        text = plain(error.format_message())
        error.format_message = lambda: text  # type: ignore[method-assign]
        raise


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(package_name="gradclip-spec", prog_name="gradclip")
def gradclip() -> None:
    """Check gradient clipping against its specification.

    \b
    gradclip check                         every adapter whose framework is installed here
    gradclip check torch --venv            one framework, in an environment made for it
    gradclip check ./my_adapter.py         your own adapter
    gradclip check my.module:clip --op clip_by_global_norm
                                           a plain function on NumPy arrays
    gradclip show global-norm.at-threshold a rule, its cases and what they expect

    Exit codes: 0 all as expected; 1 something is not; 2 wrong usage; 3 the suite's or an adapter's fault, an adapter
    that does not start, a run that is incomplete, or one in which nothing was judged.
    """  # noqa: D301 - click looks for the character that is written so


def main() -> None:
    """Run the command; a termination is handled as Ctrl-C is, so that no host is left behind."""
    signal.signal(signal.SIGTERM, _interrupt)
    gradclip(prog_name="gradclip")


def _interrupt(number: int, frame: Any) -> None:
    del number, frame
    raise KeyboardInterrupt
