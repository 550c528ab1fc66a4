"""The badge: JSON for the endpoint of https://shields.io."""

from __future__ import annotations

import json
from collections.abc import Sequence

from .lines import Run
from .matrix import matrix_of
from .statuses import STATUSES

__all__ = ["badge"]


def badge(runs: Sequence[Run]) -> str:
    """How many cells passed, of all that were planned, and what spoils the runs."""
    tally = matrix_of(runs).tally
    spoiling = [f"{count} {name}" for name, count in tally.counts.items() if STATUSES[name].spoils]
    label = "gradclip" if len(runs) > 1 else f"gradclip {runs[0].header.adapter}"
    message = ", ".join([f"{tally.passed} of {tally.total} passed", *spoiling])
    color = "red" if tally.spoiled else "brightgreen"
    return json.dumps({"schemaVersion": 1, "label": label, "message": message, "color": color}) + "\n"
