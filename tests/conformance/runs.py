"""Run adapters and commands in this process, and list the causes that findings name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from click.testing import CliRunner, Result

from gradclip_adapters.contract import Adapter
from gradclip_adapters.plain import PlainFunction
from gradclip_conformance.cli import gradclip
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import Selection
from gradclip_conformance.run.runner import RunRequest, run_adapter
from gradclip_reports.records import Run


def run_command(*arguments: object, color: bool = False) -> Result:
    """Return the result of a `gradclip` command. Its hosts still run in separate processes."""
    return CliRunner().invoke(gradclip, [*map(str, arguments)], color=color, catch_exceptions=False)


def run_rules(adapter: Adapter, *rules: str, name: str = "x", dtypes: Sequence[str] = ()) -> Run:
    """Return the run of an adapter on some rules or cases. The record has this name of the adapter."""
    return run_adapter(RunRequest(name, lambda: InProcess(adapter), Selection(rules=rules, dtypes=tuple(dtypes))))


def find_causes(adapter: Adapter, *rules: str) -> dict[tuple[Any, ...], str]:
    """Return the severity of each cause that the findings name, with the values of its parameters."""
    return {(one.cause, *one.parameters.values()): one.severity for one in run_rules(adapter, *rules).singles}


def make_adapter(
    function: Callable[..., Any],
    operation: str = "clip_by_global_norm",
    dtype: str = "float32",
    in_place: bool | None = None,
) -> PlainFunction:
    """Return the adapter of a function of one dtype, or of several such as `float16+float32`."""
    return PlainFunction(function, operation, dtypes=tuple(dtype.split("+")), in_place=in_place)
