"""Draw the plots of a site as inline SVG: errors of the norm, coefficients near the threshold, and times.

Each plot comes with a table of its numbers, for readers who do not see pictures.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Any

from ..lines import Run
from ..values import escape_line, shorten_text
from .book import Book

__all__ = ["Plot", "draw_plots"]

#: Sizes in pixels: the whole, and the margins for the axes and the names of the lines.
_WIDTH, _HEIGHT, _LEFT, _RIGHT, _TOP, _BOTTOM = 680, 380, 64, 196, 14, 46
#: Names at the ends of lines stand at least this far apart.
_APART = 17
#: The number of colours. A line that gets a used colour gets other dashes.
_COLOURS = 6
_DASHES = ("", "7 4", "2 4", "10 3 2 3", "1 3", "12 5")
#: More lines than this cannot be told apart.
_LINES = 12
_NAME = 24
#: The smallest error that is drawn: smaller ones mean that the norm is as exact as its dtype allows.
_LEAST = 0.01

_DIGITS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Plot:
    """A picture with its heading and its numbers."""

    id: str
    title: str
    caption: str
    svg: str
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class _Line:
    name: str
    points: Sequence[tuple[float, float]]


@dataclass(frozen=True)
class _Axes:
    """The places of the ticks on both axes, and what they say."""

    x: str
    y: str
    x_ticks: Mapping[float, str]
    y_ticks: Mapping[float, str]
    x_range: tuple[float, float]
    y_range: tuple[float, float]
    title: str = field(default="")

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Return the pixels of a point."""
        (left, right), (low, high) = self.x_range, self.y_range
        across = (x - left) / (right - left or 1)
        up = (y - low) / (high - low or 1)
        return _LEFT + across * (_WIDTH - _LEFT - _RIGHT), _HEIGHT - _BOTTOM - up * (_HEIGHT - _TOP - _BOTTOM)


def draw_plots(runs: Sequence[Run], book: Book) -> list[Plot]:
    """Return the plots for which there are measurements."""
    plots = [_draw_errors(runs, book), _draw_coefficients(runs), _draw_times(book)]
    return [plot for plot in plots if plot is not None]


def _draw_errors(runs: Sequence[Run], book: Book) -> Plot | None:
    """Draw the error of the norm in ulp against the number of elements, with a line for each framework."""
    lines: list[_Line] = []
    for run in runs:
        framework = _find_framework(run, book.accuracy)
        worst: dict[int, float] = {}
        for row in framework.get("rows", ()):
            if row["dtype"] == "float32" and row["norm"] is not None and row["size"] > 0 and not row["problem"]:
                worst[row["size"]] = max(worst.get(row["size"], 0.0), float(row["norm"]))
        points = [(math.log10(size), math.log10(max(ulp, _LEAST))) for size, ulp in sorted(worst.items())]
        if len(points) > 1 and all(math.isfinite(y) for _, y in points):
            lines.append(_Line(run.header.heading, points))
    if not lines:
        return None
    ticks = range(-2, 1 + math.ceil(max(y for line in lines for _, y in line.points)))
    sizes = range(math.floor(lines[0].points[0][0]), 1 + math.ceil(max(line.points[-1][0] for line in lines)))
    axes = _Axes(
        "elements",
        "error of the norm, ulp",
        {float(i): _write_power(i) for i in sizes},
        {float(i): _write_power(i) for i in ticks},
        (sizes[0], sizes[-1]),
        (ticks[0], ticks[-1]),
        "The error of the norm in ulp against the number of elements",
    )
    shown = sorted({x for line in lines for x, _ in line.points})
    rows = [[line.name, *(_find(line, x, lambda y: f"{10**y:.3g}") for x in shown)] for line in lines]
    return Plot(
        "plot-errors",
        "How far the norm is off.",
        "Largest error of the returned norm of float32 elements, in ulp. Both axes are logarithmic.",
        _draw(lines, axes),
        ["framework", *(f"{10**x:,.0f}" for x in shown)],
        rows,
    )


def _find_framework(run: Run, accuracy: Mapping[str, Any]) -> Mapping[str, Any]:
    wanted = (run.header.adapter, run.header.framework["version"])
    found = [one for one in accuracy.get("frameworks", ()) if (one["adapter"], one["version"]) == wanted]
    return found[0] if found else {}


#: For each cause that is a formula: its text, and a function that computes the coefficient from the norm and the
#: epsilon. The threshold is 1.
_FORMULAS: Mapping[str, tuple[str, Callable[[float, float], float]]] = {
    "": ("min(1, c / n)", lambda n, _: min(1, 1 / n)),
    "eps-in-coefficient": ("min(1, c / (n + eps))", lambda n, eps: min(1, 1 / (n + eps))),
    "eps-beside-maximum": ("c / (max(n, c) + eps)", lambda n, eps: 1 / (max(n, 1) + eps)),
    "eps-below-minimum": ("min(n, c) / (n + eps)", lambda n, eps: min(n, 1) / (n + eps)),
}


def _draw_coefficients(runs: Sequence[Run]) -> Plot | None:
    """Draw the coefficient against the norm near the threshold, one line for each formula that a framework uses."""
    users: dict[str, list[str]] = {"": []}
    for run in runs:
        shown = {finding.cause for finding in run.findings} & _FORMULAS.keys()
        for cause in shown or {""}:
            users.setdefault(cause, []).append(run.header.heading)
    norms = [0.8 + i / 100 for i in range(61)]
    # The threshold is ten times the epsilon, where the formulas differ visibly.
    lines = [_Line(_FORMULAS[cause][0], [(n, _FORMULAS[cause][1](n, 0.1)) for n in norms]) for cause in users]
    low = math.floor(10 * min(y for line in lines for _, y in line.points)) / 10
    ticks = [low + i / 10 for i in range(1 + round((1 - low) * 10))]
    axes = _Axes(
        "norm / threshold",
        "coefficient",
        {i / 10: f"{i / 10:g}" for i in range(8, 15)},
        {tick: f"{tick:.1f}" for tick in ticks},
        (0.8, 1.4),
        (low, 1.02),
        "The coefficient against the norm, near the threshold",
    )
    told = "; ".join(f"{_FORMULAS[cause][0]}: {', '.join(names)}" for cause, names in users.items() if names)
    near = (0.9, 1.0, 1.1, 1.2)
    rows = [[line.name, *(f"{line.points[round((x - 0.8) * 100)][1]:.3f}" for x in near)] for line in lines]
    return Plot(
        "plot-coefficients",
        "What multiplies the gradients near the threshold.",
        f"For a threshold c of ten times eps, where the formulas differ visibly. {shorten_text(told, 600)}.",
        _draw(lines, axes),
        ["formula", *(f"n = {x:g} c" for x in near)],
        rows,
    )


def _draw_times(book: Book) -> Plot | None:
    """Draw the time of a clip against the number of tensors, one line for each peer."""
    wanted: dict[str, dict[tuple[int, int], float]] = {}
    for row in book.speeds:
        size = _parse_workload(row["workload"])
        alike = row["dtype"] == "float32" and row["clipped"] and "floor" not in row["peer"]
        if size is None or not alike or "compile" in row["peer"] or not row["theirs"] > 0:
            continue
        times = wanted.setdefault(row["peer"], {})
        # Of the two modes, the faster one counts.
        times[size] = min(times.get(size, math.inf), row["theirs"])
    sizes = sorted({size for times in wanted.values() for size in times})
    if len(sizes) < 2:
        return None
    lines = [
        _Line(peer, [(float(sizes.index(size)), math.log10(1000 * times[size])) for size in sizes if size in times])
        for peer, times in wanted.items()
    ]
    values = [y for line in lines for _, y in line.points]
    ticks = range(math.floor(min(values)), 1 + math.ceil(max(values)))
    axes = _Axes(
        "tensors x elements of each",
        "milliseconds",
        {float(i): f"{count:,} x {length:,}" for i, (count, length) in enumerate(sizes)},
        {float(i): f"{10.0**i:g}" for i in ticks},
        (-0.2, len(sizes) - 0.8),
        (ticks[0], ticks[-1]),
        "The time of a clip by global norm against the number of tensors",
    )
    rows = [
        [line.name, *(_find(line, float(i), lambda y: f"{10**y:.3g}") for i in range(len(sizes)))] for line in lines
    ]
    return Plot(
        "plot-times",
        "How long a clip takes.",
        "Milliseconds for float32 gradients above the threshold; the vertical axis is logarithmic.",
        _draw(lines, axes),
        ["function", *(f"{count:,} x {length:,}" for count, length in sizes)],
        rows,
    )


def _parse_workload(text: str) -> tuple[int, int] | None:
    """Return the number of tensors and their length, from a text such as "1,000 x 1,000"."""
    parts = text.replace(",", "").split(" x ")
    if len(parts) != 2 or not all(part.isascii() and part.isdigit() and len(part) < 12 for part in parts):
        return None
    return int(parts[0]), int(parts[1])


def _find(line: _Line, x: float, write: Callable[[float], str]) -> str:
    return next((write(y) for at, y in line.points if at == x), "")


def _write_power(exponent: int) -> str:
    return f"10{str(exponent).translate(_DIGITS)}" if exponent not in (0, 1) else ("1", "10")[exponent]


# Drawing.


def _draw(lines: Sequence[_Line], axes: _Axes) -> str:
    """Return a plot with its grid, its lines and their names."""
    lines = lines[:_LINES]
    parts = [
        f'<svg class="plot" viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(axes.title)}">',
        *_draw_grid(axes),
    ]
    names = _spread([axes.place(*line.points[-1])[1] for line in lines])
    for number, (line, y) in enumerate(zip(lines, names, strict=True)):
        colour, dash = f"l{number % _COLOURS}", _DASHES[(number // _COLOURS + number) % len(_DASHES)]
        places = [axes.place(*point) for point in line.points]
        path = "M" + " L".join(f"{x:.1f} {at:.1f}" for x, at in places)
        parts.append(f'<path class="{colour}" stroke-dasharray="{dash or "none"}" d="{path}"/>')
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


def shorten_name(name: str) -> str:
    """Return a name that fits beside its line."""
    name = escape_line(name)
    return name if len(name) <= _NAME else f"{name[: _NAME - 1]}…"


def _draw_grid(axes: _Axes) -> list[str]:
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
