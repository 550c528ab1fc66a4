"""Write the badge: JSON for the endpoint of https://shields.io, or a picture."""

from __future__ import annotations

import html
from collections.abc import Sequence
from typing import NamedTuple

from .counting import count_rules
from .lines import Run
from .matrix import build_matrix
from .values import escape_line, shorten_text, write_json

__all__ = ["draw_badge", "draw_badge_picture"]

#: The colours of shields.io, by their names there. Each has a contrast of at least 4.5 with white.
_COLORS = {"brightgreen": "#2a7f1a", "red": "#c6392c"}

#: The widths of the characters of Verdana at 11 pixels: of narrow ones, of capitals, and of others. The picture
#: stretches its texts to the computed width, so that another font fits, too.
_NARROW, _CAPITAL, _OTHER = 4.2, 8.0, 6.9


class _Badge(NamedTuple):
    label: str
    message: str
    color: str


def draw_badge(runs: Sequence[Run]) -> str:
    """Return the badge: how many of the tested rules are kept, in green if all is as expected, and otherwise in red.

    Raises
    ------
    ValueError
        If a run is incomplete: its numbers would mislead.
    """
    badge = _make_badge(runs)
    document = {"schemaVersion": 1, "label": badge.label, "message": badge.message, "color": badge.color}
    return write_json(document) + "\n"


def draw_badge_picture(runs: Sequence[Run]) -> str:
    """Return the badge as SVG, which needs no service.

    Raises
    ------
    ValueError
        If a run is incomplete.
    """
    badge = _make_badge(runs)
    left, right = _measure_text(badge.label), _measure_text(badge.message)
    first, width = left + 12, left + right + 24
    label, message = html.escape(badge.label), html.escape(badge.message)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="20" role="img" '
        f'aria-label="{label}: {message}">\n'
        f"<title>{label}: {message}</title>\n"
        f'<clipPath id="round"><rect width="{width}" height="20" rx="3"/></clipPath>\n'
        f'<g clip-path="url(#round)"><rect width="{first}" height="20" fill="#555"/>'
        f'<rect x="{first}" width="{width - first}" height="20" fill="{_COLORS[badge.color]}"/></g>\n'
        '<g fill="#fff" font-family="Verdana,Geneva,DejaVu Sans,sans-serif" font-size="11">\n'
        f'<text x="6" y="14" textLength="{left}">{label}</text>\n'
        f'<text x="{first + 6}" y="14" textLength="{right}">{message}</text>\n'
        "</g>\n"
        "</svg>\n"
    )


def _make_badge(runs: Sequence[Run]) -> _Badge:
    for run in runs:
        if run.footer.incomplete:
            missing = len(run.footer.not_run)
            msg = (
                f"The run of {escape_line(run.header.adapter)} is incomplete: {missing} of {run.footer.planned} cells "
                "did not run. A badge needs a complete run."
            )
            raise ValueError(msg)
    is_as_expected, counts = build_matrix(runs).is_as_expected, count_rules(runs)
    label = "gradclip" if len(runs) > 1 else f"gradclip {shorten_text(escape_line(runs[0].header.adapter), 60)}"
    # A number of cells beside a number of rules would look like one of rules.
    message = f"{counts.kept} of {counts.asked} rules kept{'' if is_as_expected else ', not as expected'}"
    message = message if all(run.is_judged for run in runs) else "nothing judged"
    return _Badge(label, message, "brightgreen" if is_as_expected else "red")


def _measure_text(text: str) -> int:
    return round(sum(map(_measure_character, text)))


def _measure_character(character: str) -> float:
    if character in " .,:;!|'()[]/\\fijlrtI-":
        return _NARROW
    if character.isupper() or character in "mw@%&":
        return _CAPITAL
    # A character of Chinese or Japanese is as wide as it is high.
    return _OTHER if ord(character) < 0x2000 else 11.0
