"""Run an adapter on some rules, and list the causes that its findings name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradclip_adapters.contract import Adapter
from gradclip_adapters.plain import PlainFunction
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import Selection
from gradclip_conformance.run.runner import RunRequest, run_adapter
from gradclip_reports.records import Run


def run(adapter: Adapter, *rules: str) -> Run:
    """Return the run of an adapter on some rules."""
    return run_adapter(RunRequest("x", lambda: InProcess(adapter), Selection(rules=rules)))


def find_causes(adapter: Adapter, *rules: str) -> dict[tuple[Any, ...], str]:
    """Return the severity of each cause that the findings name, with the values of its parameters."""
    return {(one.cause, *one.parameters.values()): one.severity for one in run(adapter, *rules).singles}


def make_adapter(
    function: Callable[..., Any],
    operation: str = "clip_by_global_norm",
    dtype: str = "float32",
    in_place: bool | None = None,
) -> PlainFunction:
    """Return the adapter of a function of one dtype."""
    return PlainFunction(function, operation, dtypes=(dtype,), in_place=in_place)
