"""Run adapters and commands in this process, on cases or on rows, and list the causes that findings name."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from click.testing import CliRunner, Result

from gradclip_adapters.contract import Adapter
from gradclip_adapters.plain import PlainFunction
from gradclip_conformance.cli import gradclip
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import PlannedCell, Selection
from gradclip_conformance.run.runner import Knowledge, RunRequest, run_adapter, run_cell
from gradclip_conformance.sampler.rows import list_cases
from gradclip_reports.records import Cell, Run


def run_command(*arguments: object, color: bool = False) -> Result:
    """Return the result of a `gradclip` command. Its hosts still run in separate processes."""
    return CliRunner().invoke(gradclip, [*map(str, arguments)], color=color, catch_exceptions=False)


def run_rules(adapter: Adapter, *rules: str, name: str = "x", dtypes: Sequence[str] = ()) -> Run:
    """Return the run of an adapter on some rules or cases. The record has this name of the adapter."""
    return run_adapter(RunRequest(name, lambda: InProcess(adapter), Selection(rules=rules, dtypes=tuple(dtypes))))


def run_rows(
    adapter: Adapter,
    levels: Mapping[str, Collection[str]],
    count: int = 10,
    features: Sequence[str] = (),
    **known: Sequence[Any],
) -> list[Cell]:
    """Return the cells of the first rows, at least two, that have one of the given levels on each axis.

    The rows make no threads. `known` gives claims or known failures.
    """
    connection, knowledge = InProcess(adapter), Knowledge(**known)
    (entry_point,) = connection.description.subjects
    entry_point = replace(entry_point, features=(*entry_point.features, *features))
    fitting = (
        row
        for _, row in list_cases(entry_point, 6000)
        if row.levels["repeated"] != "threaded" and all(row.levels[axis] in words for axis, words in levels.items())
    )
    rows = list(itertools.islice(fitting, count))
    assert len(rows) > 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return [run_cell(connection, PlannedCell(entry_point, row, None), 30.0, knowledge) for row in rows]


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
