"""Draw the plots of a site as inline SVG: errors of the norm, coefficients near the threshold, and times.

Each plot comes with a table of its numbers, for readers who do not see pictures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ..lines import Run
from ..values import shorten_text
from .book import Book
from .drawing import Axes, Line, draw, list_lines
from .measured import is_ordinary_clip

__all__ = ["Plot", "draw_plots"]

#: The smallest error that is drawn: smaller ones mean that the norm is as exact as its dtype allows.
_LEAST = 0.01

#: A row holds the time of a peer and the time of the reference on the same arrays. The line of the reference shows its
#: times on NumPy arrays, which are in the rows of this peer.
_PEER_OF_REFERENCE, _REFERENCE = "NumPy as people write it", "gradclip_spec on NumPy"
#: Words in the names of peers that do not clip by global norm, or that another line shows.
_OTHER_WORK = ("memory floor", "compile time", "by norm", "by value", "clip_grad_value_", "without the extra")

_DIGITS = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


@dataclass(frozen=True)
class Plot:
    """A picture with its heading and its numbers."""

    id: str
    title: str
    caption: str
    svg: str
    #: For each line, a sample of it as SVG, and its name.
    lines: Sequence[tuple[str, str]]
    head: Sequence[str]
    rows: Sequence[Sequence[str]]


def draw_plots(runs: Sequence[Run], book: Book) -> list[Plot]:
    """Return the plots for which there are measurements."""
    plots = [_draw_errors(runs, book), _draw_coefficients(runs), _draw_times(book)]
    return [plot for plot in plots if plot is not None]


def _draw_errors(runs: Sequence[Run], book: Book) -> Plot | None:
    """Draw the error of the norm in ulp against the number of elements, with a line for each framework."""
    lines: list[Line] = []
    for run in runs:
        worst: dict[int, float] = {}
        for row in book.list_errors(run.header.adapter, run.header.framework["version"]):
            if row["dtype"] == "float32" and row["norm"] is not None and row["size"] > 0:
                worst[row["size"]] = max(worst.get(row["size"], 0.0), float(row["norm"]))
        points = [(math.log10(size), math.log10(max(ulp, _LEAST))) for size, ulp in sorted(worst.items())]
        if len(points) > 1 and all(math.isfinite(y) for _, y in points):
            lines.append(Line(run.header.heading, points))
    if not lines:
        return None
    ticks = range(-2, 1 + math.ceil(max(y for line in lines for _, y in line.points)))
    sizes = range(
        math.floor(min(line.points[0][0] for line in lines)), 1 + math.ceil(max(line.points[-1][0] for line in lines))
    )
    axes = Axes(
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
        draw(lines, axes),
        list_lines(lines),
        ["framework", *(f"{10**x:,.0f}" for x in shown)],
        rows,
    )


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
    lines = [Line(_FORMULAS[cause][0], [(n, _FORMULAS[cause][1](n, 0.1)) for n in norms]) for cause in users]
    low = math.floor(10 * min(y for line in lines for _, y in line.points)) / 10
    ticks = [low + i / 10 for i in range(1 + round((1 - low) * 10))]
    axes = Axes(
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
        draw(lines, axes),
        list_lines(lines),
        ["formula", *(f"n = {x:g} c" for x in near)],
        rows,
    )


def _draw_times(book: Book) -> Plot | None:
    """Draw the time of a clip of one tensor against its number of elements, one line for each peer."""
    wanted: dict[str, dict[int, float]] = {}
    for row in book.speeds:
        size = _parse_workload(row["workload"])
        left_out = any(word in row["peer"] for word in _OTHER_WORK)
        if size is None or left_out or not is_ordinary_clip(row) or not min(row["theirs"], row["ours"]) > 0:
            continue
        times = wanted.setdefault(row["peer"], {})
        # Of the two modes, the faster one counts.
        times[size] = min(times.get(size, math.inf), row["theirs"])
        if row["peer"] == _PEER_OF_REFERENCE:
            ours = wanted.setdefault(_REFERENCE, {})
            ours[size] = min(ours.get(size, math.inf), row["ours"])
    sizes = sorted({size for times in wanted.values() for size in times})
    if len(sizes) < 2:
        return None
    lines = [
        Line(peer, [(math.log10(size), math.log10(1000 * times[size])) for size in sizes if size in times])
        for peer, times in wanted.items()
    ]
    values = [y for line in lines for _, y in line.points]
    ticks = range(math.floor(min(values)), 1 + math.ceil(max(values)))
    first, last = math.log10(sizes[0]), math.log10(sizes[-1])
    axes = Axes(
        "elements",
        "milliseconds",
        {float(i): _write_power(i) for i in range(math.ceil(first), 1 + math.floor(last))},
        {float(i): f"{10.0**i:g}" for i in ticks},
        (first, last),
        (ticks[0], ticks[-1]),
        "The time of a clip by global norm against the number of elements",
    )
    rows = [[line.name, *(_find(line, math.log10(size), lambda y: f"{10**y:.3g}") for size in sizes)] for line in lines]
    return Plot(
        "plot-times",
        "How long a clip takes.",
        "Milliseconds for one float32 gradient above the threshold; both axes are logarithmic.",
        draw(lines, axes),
        list_lines(lines),
        ["function", *(f"{size:,}" for size in sizes)],
        rows,
    )


def _parse_workload(text: str) -> int | None:
    """Return the number of elements of one tensor, from a text such as "1 x 1,000"; or None for another workload."""
    first, _, length = text.replace(",", "").partition(" x ")
    is_number = length.isascii() and length.isdigit() and len(length) < 12
    return int(length) or None if first == "1" and is_number else None


def _find(line: Line, x: float, write: Callable[[float], str]) -> str:
    return next((write(y) for at, y in line.points if at == x), "")


def _write_power(exponent: int) -> str:
    return f"10{str(exponent).translate(_DIGITS)}" if exponent not in (0, 1) else ("1", "10")[exponent]
