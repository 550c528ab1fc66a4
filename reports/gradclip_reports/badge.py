"""Write the badge: JSON for the endpoint of https://shields.io."""

from __future__ import annotations

from collections.abc import Sequence

from .counting import count_rules
from .lines import Run
from .matrix import build_matrix
from .statuses import STATUSES
from .values import escape_line, shorten_text, write_json

__all__ = ["draw_badge"]


def draw_badge(runs: Sequence[Run]) -> str:
    """Return the number of kept rules out of the tested ones, in green if all is as expected, and in red otherwise."""
    matrix = build_matrix(runs)
    spoiling = [f"{count} {name}" for name, count in matrix.tally.counts.items() if STATUSES[name].spoils]
    counts = count_rules(runs)
    label = "gradclip" if len(runs) > 1 else f"gradclip {shorten_text(escape_line(runs[0].header.adapter), 60)}"
    message = ", ".join([f"{counts.kept} of {counts.asked} rules kept", *spoiling])
    message = message if all(run.is_judged for run in runs) else "nothing judged"
    color = "brightgreen" if matrix.is_as_expected else "red"
    return write_json({"schemaVersion": 1, "label": label, "message": message, "color": color}) + "\n"
