"""Which Python has a framework, for the tests that call real ones."""

from __future__ import annotations

import importlib.util
import os
import sys

import pytest

__all__ = ["MODULES", "python_with"]

#: The adapters of frameworks, and the module that tells whether a framework is here.
MODULES = {"torch": "torch", "paddle": "paddle", "paddle-fluid": "paddle.fluid", "tensorflow": "tensorflow"}


def python_with(adapter: str) -> str:
    """A Python that has an adapter's framework; the test is skipped, or fails where it is required, without one."""
    variable = f"GRADCLIP_PYTHON_{adapter.upper().replace('-', '_')}"
    if named := os.environ.get(variable):
        return named
    module = MODULES[adapter]
    if adapter != "paddle-fluid" and importlib.util.find_spec(module) is not None:
        return sys.executable
    message = f"{module} is not installed in this Python; {variable} can name one that has it"
    if adapter in os.environ.get("GRADCLIP_REQUIRE", "").split(","):
        pytest.fail(message)
    pytest.skip(message)
