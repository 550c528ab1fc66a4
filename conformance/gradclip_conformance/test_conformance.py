"""Collect what `pytest --pyargs gradclip_conformance --gradclip-adapter NAME` runs."""

from __future__ import annotations

from collections.abc import Callable

__all__: list[str] = []


def test_cell(gradclip_cell: Callable[[], None]) -> None:
    """Check one case for one subject."""
    __tracebackhide__ = True
    gradclip_cell()
