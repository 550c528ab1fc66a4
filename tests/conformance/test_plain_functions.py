"""Plain functions in the process of the suite: neither is harmed by what the other does to the process."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from gradclip_conformance import check_clipper


def ends(grads: list[Any], *, clip_norm: float) -> list[Any]:
    """Refuses a threshold as a program does, not a function."""
    if clip_norm < 0:
        sys.exit(0)
    return grads


def is_interrupted(grads: list[Any], *, clip_norm: float) -> list[Any]:
    """Met by a Ctrl-C."""
    raise KeyboardInterrupt


def test_function_that_ends_the_process_costs_its_cells() -> None:
    results = check_clipper(ends, "clip_by_norm", dtypes=["float32"], rule="norm.negative-threshold-refused")

    assert {result["status"] for result in results} == {"crash"}
    assert {result["detail"] for result in results} == {"The call would have ended a host process: SystemExit: 0"}


def test_interruption_ends_the_check() -> None:
    with pytest.raises(KeyboardInterrupt):
        check_clipper(is_interrupted, "clip_by_norm", dtypes=["float32"], rule="norm.at-threshold")
