"""Describe the conditions of a measurement: the day, and the versions that it depends on."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import numpy as np

__all__ = ["describe_conditions", "write_conditions"]


def describe_conditions() -> dict[str, Any]:
    """Return the day and the versions, for a result that is kept as JSON."""
    return {
        "date": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "versions": {
            "gradclip-spec": version("gradclip-spec"),
            "Python": platform.python_version(),
            "NumPy": np.__version__,
        },
    }


def write_conditions(result: Mapping[str, Any]) -> str:
    """Return the conditions of a result in words, such as "on 2026-11-23 with NumPy 2.3"."""
    return f"on {result['date']} with {', '.join(f'{name} {number}' for name, number in result['versions'].items())}"
