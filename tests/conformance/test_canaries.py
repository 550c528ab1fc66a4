"""Check that adapters call their frameworks. Their cells must fail if other functions replace the framework's.

Each file of `canaries/` replaces functions of one framework before it imports the adapter. The replacement is the
identity, or a NumPy computation whose results are doubled. A variable such as GRADCLIP_PYTHON_TORCH names a Python that
has the framework. Without it, this Python is used if it has the framework. A framework named in GRADCLIP_REQUIRE must
be installed; its absence is an error.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from frameworks import ADAPTERS, MODULES, find_python

from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.run.host_process import HostProcess, build_host_command
from gradclip_conformance.run.plan import Selection
from gradclip_conformance.run.runner import RunRequest, run_adapter
from gradclip_reports.records import Cell, Run
from gradclip_reports.statuses import SPOILING

CANARIES = Path(__file__).with_name("canaries")

#: NumPy is installed in every Python here.
ALL_ADAPTERS = ["numpy", *ADAPTERS]
WAYS = ("identity", "doubled")

#: NumPy cannot compute in the static programs of these adapters. Only the identity replaces their functions.
STATIC = ("keras-tensorflow", "paddle", "paddle-fluid")

#: The ends of names of entry points that clip nothing by themselves, so the identity changes no answer. The tests of
#: their adapters show that they call the framework.
INERT = ("set_gradient_clip [ClipGradByGlobalNorm, static]", "beside another, static]")

#: Cases above the threshold, in the dtype that every subject supports. In several processes, each has a copy.
SELECTION = Selection(rules=("*.scaled-above", "value.bounds", "*.shards-as-whole/copied/*"), dtypes=("float32",))

CASES = {case.id: case for case in list_all_cases()}


def run_target(adapter: str, target: str) -> Run:
    """Run an adapter, or a file in its place, with the adapter's claims and known failures."""
    python = sys.executable if adapter == "numpy" else find_python(adapter)
    command = [*build_host_command(python), target]
    return run_adapter(RunRequest(adapter, lambda: HostProcess(command), SELECTION, timeout=120.0), io.StringIO())


def read_values(arrays: Any) -> list[list[float]]:
    """Return the elements of each gradient in a cell, or the first ones of a large gradient."""
    return [[float.fromhex(value) for value in array["values"]] for array in arrays["gradients"]]


def is_passed_through(cell: Cell) -> bool:
    """Tell whether the gradients came back unchanged."""
    given = [gradient.array.numpy().ravel() for gradient in CASES[cell.case].gradients if gradient.array is not None]
    observed = read_values(cell.observed)
    pairs = zip(given[: len(observed)], observed, strict=True)
    return all(np.array_equal(old[: len(new)], new) for old, new in pairs)


def is_doubled(cell: Cell) -> bool:
    """Tell whether the gradients came back twice as large as expected."""
    pairs = zip(read_values(cell.expected), read_values(cell.observed), strict=True)
    return all(np.allclose(2 * np.array(old), new, rtol=1e-5, atol=0) for old, new in pairs)


SIGNS: dict[str, Callable[[Cell], bool]] = {"identity": is_passed_through, "doubled": is_doubled}


@pytest.mark.exam(sample=0)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("adapter", ALL_ADAPTERS)
def test_subjects_fail_when_the_framework_is_replaced(
    adapter: str, way: str, record_property: Callable[[str, object], None]
) -> None:
    run = run_target(adapter, str(CANARIES / f"{adapter.replace('-', '_')}_{way}.py"))

    static = {subject["name"] for subject in run.header.subjects if "compiled" in subject["features"]}
    inert = {subject["name"] for subject in run.header.subjects if subject["name"].endswith(INERT)}
    spared = static if adapter in STATIC and way == "doubled" else inert
    # Where an error is pinned, an answer from the replaced function gives `changed`.
    answered = [cell for cell in run.cells if cell.status in ("fail", "changed") and cell.subject not in spared]
    red = {cell.subject for cell in answered if SIGNS[way](cell)}
    record_property("framework", f"{run.header.framework['name']} {run.header.framework['version']}")
    record_property("red", len(red))
    record_property("spared", len(spared))
    assert red == {subject["name"] for subject in run.header.subjects} - spared
    # A subnormal number can be flushed to zero after the clip, so a replaced function does not always show there.
    normal = [cell for cell in run.cells if "subnormal" not in cell.case]
    spoilt = [cell for cell in normal if cell.status in SPOILING and cell.subject not in spared]
    unlike = [cell for cell in spoilt if not (cell in answered and SIGNS[way](cell))]
    assert [f"{cell.case} of {cell.subject}: {cell.detail}" for cell in unlike] == []


@pytest.mark.exam(sample=0)
@pytest.mark.parametrize("adapter", ALL_ADAPTERS)
def test_every_cell_is_as_expected_before_a_canary_replaces_a_function(adapter: str) -> None:
    run = run_target(adapter, adapter)

    assert [f"{cell.case} of {cell.subject}: {cell.detail}" for cell in run.cells if cell.status in SPOILING] == []
    assert any(cell.status in ("pass", "documented") for cell in run.cells)


def test_every_canary_belongs_to_an_adapter() -> None:
    expected = {f"{adapter.replace('-', '_')}_{way}" for adapter in ("numpy", *MODULES) for way in WAYS}

    assert {path.stem for path in CANARIES.glob("*.py")} - {"doubled", "keras_clips"} == expected
