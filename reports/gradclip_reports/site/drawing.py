"""Draw lines with their axes and their names as SVG."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from ..values import escape_line

__all__ = ["Axes", "Line", "draw", "list_lines"]

#: Sizes in pixels: the whole, and the margins for the axes and the names of the lines.
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 720, 400, 64, 250, 14, 46
#: Names at the ends of lines stand at least this far apart.
_APART = 17
#: The number of colours. A line that gets a used colour gets other dashes.
_COLOURS = 6
_DASHES = ("none", "7 4", "2 4", "10 3 2 3", "1 3", "12 5")
#: More lines than this cannot be told apart.
_LINES = 12
_NAME = 36


@dataclass(frozen=True)
class Line:
    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class Axes:
    """The places of the ticks on both axes, and what they say."""

    x: str
    y: str
    x_ticks: Mapping[float, str]
    y_ticks: Mapping[float, str]
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    title: str

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Return the pixels of a point."""
        (left, right), (low, high) = self.x_range, self.y_range
        across = (x - left) / (right - left or 1)
        up = (y - low) / (high - low or 1)
        return _LEFT + across * (_WIDTH - _LEFT - _RIGHT), _HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM)


def draw(lines: Sequence[Line], axes: Axes) -> str:
    """Return a plot with its grid, its lines and their names."""
    lines = lines[:_LINES]
    parts = [
        f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(axes.title)}">',
        *_draw_grid(axes),
    ]
    names = _spread([axes.place(*line.points[-1])[1] for line in lines])
    for number, (line, y) in enumerate(zip(lines, names, strict=True)):
        colour, dash = _choose_style(number)
        places = [axes.place(*point) for point in line.points]
        path = "M" + " L".join(f"{x:.1f} {at:.1f}" for x, at in places)
        parts.append(f'<path class="{colour}" stroke-dasharray="{dash}" d="{path}"/>')
        if len(places) <= 10:
            parts += [f'<circle class="{colour}" cx="{x:.1f}" cy="{at:.1f}" r="3"/>' for x, at in places]
        name, edge = escape(shorten_name(line.name)), _WIDTH - _RIGHT + 8
        if places[-1][0] < edge - 12:
            # The name of a line stands at the right edge, where it covers no other line. If the line ends earlier, a
            # thin line leads to the name.
            end = f"{places[-1][0]:.1f} {places[-1][1]:.1f}"
            parts.append(f'<path class="leader {colour}" d="M{end} L{edge - 4} {y:.1f}"/>')
        parts.append(f'<text class="name {colour}" x="{edge}" y="{y + 4:.1f}">{name}</text>')
    return "\n".join([*parts, "</svg>"])


def _choose_style(number: int) -> tuple[str, str]:
    """Return the class and the dashes of a line."""
    return f"l{number % _COLOURS}", _DASHES[(number // _COLOURS + number) % len(_DASHES)]


def list_lines(lines: Sequence[Line]) -> list[tuple[str, str]]:
    """Return a sample of each line, and its name."""
    listed: list[tuple[str, str]] = []
    for number, line in enumerate(lines[:_LINES]):
        colour, dash = _choose_style(number)
        path = f'<path class="{colour}" stroke-dasharray="{dash}" d="M0 5 L34 5"/>'
        listed.append(
            (f'<svg class="plot" width="34" height="10" aria-hidden="true">{path}</svg>', escape_line(line.name))
        )
    return listed


def shorten_name(name: str) -> str:
    """Return a name that fits beside its line."""
    name = escape_line(name)
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def _draw_grid(axes: Axes) -> list[str]:
    parts: list[str] = []
    right, bottom = _WIDTH - _RIGHT, _HEIGHT - _BOTTOM
    for tick, text in axes.y_ticks.items():
        y = axes.place(axes.x_range[0], tick)[1]
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text class="axis" x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{escape(text)}</text>')
    for tick, text in axes.x_ticks.items():
        x = axes.place(tick, axes.y_range[0])[0]
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{bottom}"/>')
        parts.append(f'<text class="axis" x="{x:.1f}" y="{bottom + 18}" text-anchor="middle">{escape(text)}</text>')
    middle = (_LEFT + right) / 2
    parts.append(f'<text x="{middle:.0f}" y="{_HEIGHT - 6}" text-anchor="middle">{escape(axes.x)}</text>')
    up = (_TOP + bottom) / 2
    parts.append(
        f'<text x="14" y="{up:.0f}" text-anchor="middle" transform="rotate(-90 14 {up:.0f})">{escape(axes.y)}</text>'
    )
    return parts


def _spread(places: Sequence[float]) -> list[float]:
    """Move the names of lines apart, so that none covers another."""
    order = sorted(range(len(places)), key=places.__getitem__)
    moved = dict(zip(order, (places[i] for i in order), strict=True))
    for before, after in itertools.pairwise(order):
        moved[after] = max(moved[after], moved[before] + _APART)
    # Names that were pushed out at the bottom move up again.
    bottom: float = _HEIGHT - _BOTTOM
    for i in reversed(order):
        moved[i] = min(moved[i], bottom)
        bottom = moved[i] - _APART
    return [moved[i] for i in range(len(places))]
