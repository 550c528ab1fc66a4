"""Write the badge: JSON for the endpoint of https://shields.io."""

from __future__ import annotations

from collections.abc import Sequence

from .lines import Run
from .matrix import matrix_of
from .statuses import STATUSES
from .values import json_text, plain_line, shortened

__all__ = ["badge"]


def badge(runs: Sequence[Run]) -> str:
    """Return how many cells passed, of all that were planned, and what spoils the runs."""
    matrix = matrix_of(runs)
    tally = matrix.tally
    spoiling = [f"{count} {name}" for name, count in tally.counts.items() if STATUSES[name].spoils]
    label = "gradclip" if len(runs) > 1 else f"gradclip {shortened(plain_line(runs[0].header.adapter), 60)}"
    message = ", ".join([f"{tally.passed} of {tally.total} passed", *spoiling])
    message = message if all(run.is_judged for run in runs) else "nothing judged"
    color = "brightgreen" if matrix.is_as_expected else "red"
    return json_text({"schemaVersion": 1, "label": label, "message": message, "color": color}) + "\n"
