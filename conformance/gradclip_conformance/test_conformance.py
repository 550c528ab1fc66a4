"""Collect what `pytest --pyargs gradclip_conformance --gradclip-adapter NAME` runs."""

from __future__ import annotations

from collections.abc import Callable

__all__: list[str] = []


def test_conforms(gradclip_check: Callable[[], None]) -> None:
    """Check one case for one entry point, or one finding or rule of an adapter."""
    __tracebackhide__ = True
    gradclip_check()
