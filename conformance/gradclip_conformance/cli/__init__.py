"""The command `gradclip`: one module a verb."""

from __future__ import annotations

import signal
import sys
from typing import Any

try:
    import click
except ImportError as missing:  # pragma: no cover - seen by whoever installs the core alone
    sys.exit(f"The command line needs the extra `check`: pip install 'gradclip-spec[check]' ({missing})")

from .accuracy import accuracy
from .adapters import adapters
from .check import check
from .expectations import expectations
from .repro import repro
from .rules import rules
from .show import show
from .smoke import smoke
from .summary import summary

__all__ = ["gradclip", "main"]


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
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

    Exit codes: 0 all as expected; 1 something is not; 2 wrong usage; 3 the suite's own fault, an adapter that does
    not start, or an incomplete run.
    """  # noqa: D301 - click looks for the character that is written so


for command in (check, smoke, adapters, rules, show, summary, repro, expectations, accuracy):
    gradclip.add_command(command)


def main() -> None:
    """Run the command; a termination is handled as Ctrl-C is, so that no host is left behind."""
    signal.signal(signal.SIGTERM, _interrupt)
    gradclip(prog_name="gradclip")


def _interrupt(number: int, frame: Any) -> None:
    del number, frame
    raise KeyboardInterrupt
