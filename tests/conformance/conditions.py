"""Describe the conditions of a measurement: the day, and the versions that it depends on."""

from __future__ import annotations

import datetime
import platform
from importlib.metadata import version

import numpy as np

__all__ = ["describe_conditions"]


def describe_conditions() -> str:
    """Return the conditions in words, such as "on 2026-11-23 with NumPy 2.3"."""
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    numbers = {"gradclip-spec": version("gradclip-spec"), "Python": platform.python_version(), "NumPy": np.__version__}
    return f"on {day} with {', '.join(f'{name} {number}' for name, number in numbers.items())}"
