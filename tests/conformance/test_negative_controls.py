"""Check that adapters call their frameworks. Their cells must fail if other functions replace the framework's.

A negative control replaces functions of one framework before it imports the adapter: by the identity, or by the
framework's own functions with doubled results. A variable such as GRADCLIP_PYTHON_TORCH names a Python that has the
framework. Without it, this Python is used if it has the framework. A framework named in GRADCLIP_REQUIRE must be
installed; its absence is an error.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frameworks import ADAPTERS, MODULES, find_python
from negative_controls.table import TABLE

from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.cases.shards import find_case_on
from gradclip_conformance.run.host_process import HostProcess, build_host_command
from gradclip_conformance.run.plan import Selection
from gradclip_conformance.run.runner import RunRequest, run_adapter
from gradclip_reports.records import Cell, Run
from gradclip_reports.statuses import SPOILING

CONTROL = str(Path(__file__).with_name("negative_controls") / "control.py")

#: NumPy is installed in every Python here.
ALL_ADAPTERS = ["numpy", *ADAPTERS]
WAYS = ("identity", "doubled")

#: The ends of names of entry points where a replacement changes no answer: they clip nothing by themselves, or the
#: framework's function raises an error, which cannot be doubled. The tests of their adapters show that they call it.
INERT = {
    "identity": ("set_gradient_clip [ClipGradByGlobalNorm, static]", "beside another, static]"),
    "doubled": (
        "set_gradient_clip [ClipGradByGlobalNorm, static]",
        "paddle.nn.ClipGradByValue [SGD, static]",
        "paddle.nn.clip.ErrorClipByValue [static]",
    ),
}

#: Cases above the threshold, in the dtype that every entry point supports. In several processes, each has a copy. Where
#: optimizer states are sharded, each process has parameters of its own.
SELECTION = Selection(
    rules=(
        "*.scaled-above",
        "value.bounds",
        "*.shards-as-whole/copied/*",
        "*.shards-as-whole/copied@*",
        "*.shards-as-whole/owned@sharding:*",
    ),
    dtypes=("float32",),
)

CASES = {case.id: case for case in list_all_cases()}


def run_target(adapter: str, target: str, environment: Mapping[str, str] | None = None) -> Run:
    """Run an adapter, or a file in its place, with the adapter's claims and known failures."""
    python = sys.executable if adapter == "numpy" else find_python(adapter)
    command = [*build_host_command(python), target]
    open_host = lambda: HostProcess(command, environment)  # noqa: E731
    return run_adapter(RunRequest(adapter, open_host, SELECTION, timeout=120.0))


def read_values(arrays: Any) -> list[list[float]]:
    """Return the elements of each gradient in a cell, or the first ones of a large gradient."""
    return [[float.fromhex(value) for value in array["values"]] for array in arrays["gradients"]]


@functools.cache
def run_unreplaced(adapter: str) -> Run:
    return run_target(adapter, adapter)


def has_answer(cell: Cell) -> bool:
    return cell.observed is not None and "gradients" in cell.observed


def is_passed_through(cell: Cell) -> bool:
    case = CASES.get(cell.case) or find_case_on(cell.case)
    assert case is not None
    given = [gradient.array.numpy().ravel() for gradient in case.gradients if gradient.array is not None]
    observed = read_values(cell.observed)
    pairs = zip(given[: len(observed)], observed, strict=True)
    return all(np.array_equal(old[: len(new)], new) for old, new in pairs)


def is_doubled(cell: Cell, unreplaced: Cell) -> bool:
    """Tell whether the gradients came back twice as large as the framework's own answer."""
    answer = unreplaced.observed if has_answer(unreplaced) else cell.expected
    pairs = zip(read_values(answer), read_values(cell.observed), strict=True)
    # Every selected cell is in float32, where twice a large number is infinite.
    with np.errstate(over="ignore"):
        return all(np.allclose(np.float32(2) * np.array(old, "f"), new, rtol=1e-5, atol=0) for old, new in pairs)


@pytest.mark.thorough(sample=0)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("adapter", ALL_ADAPTERS)
def test_entry_points_fail_when_the_framework_is_replaced(
    adapter: str, way: str, record_property: Callable[[str, object], None]
) -> None:
    run = run_target(adapter, CONTROL, {"GRADCLIP_NEGATIVE_CONTROL": f"{adapter} {way}"})

    spared = {entry_point["name"] for entry_point in run.header.subjects if entry_point["name"].endswith(INERT[way])}
    failed = [cell for cell in run.cells if cell.status == "fail" and cell.subject not in spared]
    answered = [cell for cell in failed if has_answer(cell)]
    if way == "identity":
        shown = [cell for cell in answered if is_passed_through(cell)]
    else:
        unreplaced = {cell.pair: cell for cell in run_unreplaced(adapter).cells}
        shown = [cell for cell in answered if is_doubled(cell, unreplaced[cell.pair])]
    red = {cell.subject for cell in shown}
    record_property("framework", f"{run.header.framework['name']} {run.header.framework['version']}")
    record_property("red", len(red))
    record_property("spared", len(spared))
    assert red == {entry_point["name"] for entry_point in run.header.subjects} - spared
    # A subnormal number can be flushed to zero after the clip, so a replaced function does not always show there.
    normal = [cell for cell in run.cells if "subnormal" not in cell.case]
    spoilt = [cell for cell in normal if cell.status in SPOILING and cell.subject not in spared]
    unlike = [cell for cell in spoilt if cell not in shown]
    assert [f"{cell.case} of {cell.subject}: {cell.detail}" for cell in unlike] == []


@pytest.mark.thorough(sample=0)
@pytest.mark.parametrize("adapter", ALL_ADAPTERS)
def test_every_cell_is_as_expected_before_a_function_is_replaced(adapter: str) -> None:
    run = run_unreplaced(adapter)

    assert [f"{cell.case} of {cell.subject}: {cell.detail}" for cell in run.cells if cell.status in SPOILING] == []
    assert any(cell.status in ("pass", "documented") for cell in run.cells)


def test_every_adapter_has_a_negative_control() -> None:
    assert TABLE.keys() == {"numpy", *MODULES}, "each adapter needs a row in negative_controls/table.py"
