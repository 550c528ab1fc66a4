"""Check the plots of the site. Each shows the numbers of its table, and no table means no plot."""

from __future__ import annotations

import importlib.resources
import itertools
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

import pytest

from gradclip_reports.records import Cell, Finding, Header, Run
from gradclip_reports.site.book import Book
from gradclip_reports.site.drawing import Axes, Line, draw
from gradclip_reports.site.picture import frame_plot
from gradclip_reports.site.plots import draw_plots

NAMES = ("torch", "paddle")


@pytest.fixture
def runs(make_cell: Callable[..., Cell], make_header: Callable[..., Header], make_run: Callable[..., Run]) -> list[Run]:
    """Return a run of each framework."""
    return [make_run(make_header(name, "1.0"), [make_cell()]) for name in NAMES]


def make_accuracy(**errors: dict[int, Any]) -> list[dict[str, Any]]:
    """Return a table with these errors of the norm, by framework and number of elements."""
    return [
        {
            "adapter": name,
            "framework": name,
            "version": "1.0",
            "rows": [
                {"subject": "f", "dtype": "float32", "size": size, "norm": norm, "elements": 0.5, "problem": ""}
                for size, norm in rows.items()
            ],
        }
        for name, rows in errors.items()
    ]


def make_speed(peer: str, workload: str, theirs: float, **changed: Any) -> dict[str, Any]:
    row = {"peer": peer, "workload": workload, "dtype": "float32", "mode": "in place"}
    return {**row, "ours": 1.0, "theirs": theirs, **changed}


def read_words(svg: str) -> list[str]:
    """Return the texts of a picture, which must be XML."""
    return [element.text or "" for element in ElementTree.fromstring(svg).iter("text")]


def test_errors_are_drawn_against_the_number_of_elements(runs: list[Run]) -> None:
    accuracy = make_accuracy(
        torch={1000: 0.5, 100_000: 12.0, 10_000_000: 1400.0, 0: 0.0}, paddle={1000: 0.25, 100_000: 0.5}
    )

    plot = next(plot for plot in draw_plots(runs, Book([], accuracy=accuracy)) if plot.id == "plot-errors")

    assert plot.head == ["framework", "1,000", "100,000", "10,000,000"]
    assert [row[1:] for row in plot.rows] == [["0.5", "12", "1.4e+03"], ["0.25", "0.5", ""]]
    words = read_words(plot.svg)
    assert {"10³", "10⁷", "elements", "error of the norm, ulp"} <= set(words)
    assert all(any(name in word for word in words) for name in NAMES)
    # Each of the five measurements has a point.
    assert plot.svg.count("<circle") == 5


@pytest.mark.parametrize(
    "errors",
    [
        {1000: 0.5},
        {1000: 0.5, 100_000: "inf"},
        {1000: None, 100_000: None},
    ],
    ids=["one-size", "infinite", "no-norm"],
)
def test_errors_are_drawn_only_if_they_make_a_line(errors: dict[int, Any], runs: list[Run]) -> None:
    plots = draw_plots(runs, Book([], accuracy=make_accuracy(torch=errors)))

    assert "plot-errors" not in {plot.id for plot in plots}


def test_no_line_of_errors_leaves_the_axes(runs: list[Run]) -> None:
    accuracy = make_accuracy(torch={1000: 0.5, 100_000: 12.0}, paddle={100: 0.25, 10_000_000: 0.5})

    plot = next(plot for plot in draw_plots(runs, Book([], accuracy=accuracy)) if plot.id == "plot-errors")

    picture = ElementTree.fromstring(plot.svg)
    edges = [float(line.attrib["x1"]) for line in picture.iter("line") if line.attrib["x1"] == line.attrib["x2"]]
    places = [float(circle.attrib["cx"]) for circle in picture.iter("circle")]
    assert (min(places), max(places)) == (min(edges), max(edges))


def test_times_are_drawn_against_the_number_of_elements(runs: list[Run]) -> None:
    speeds = [
        make_speed("torch foreach", "1 x 25,000,000", 0.010),
        make_speed("torch foreach", "1 x 25,000,000", 0.008, mode="functional"),
        make_speed("torch foreach", "1 x 1,000", 0.004),
        make_speed("optax", "1 x 1,000", 0.040),
        # These rows are about something else.
        make_speed("memory floor (NumPy)", "1 x 10", 0.5),
        make_speed("optax (compile time)", "1 x 10", 0.5),
        make_speed("NumPy, by norm", "1 x 10", 0.5),
        make_speed("torch foreach", "1 x 10", 0.5, dtype="float64"),
        make_speed("torch foreach", "1 x 10", 0.5, mode="in place, nothing to clip"),
        make_speed("torch foreach", "1 x 10", 0.0),
        make_speed("torch foreach", "a list of 3", 0.5),
        make_speed("torch foreach", "10 x 10", 0.5),
        make_speed("torch foreach", "1 x 0", 0.5),
        make_speed("torch foreach", "many x few", 0.5),
    ]

    (plot,) = [plot for plot in draw_plots(runs, Book([], speeds=speeds)) if plot.id == "plot-times"]

    assert plot.rows == [["torch foreach", "4", "8"], ["optax", "40", ""]]
    words = read_words(plot.svg)
    assert {"torch foreach", "optax", "milliseconds"} <= set(words)


def test_times_of_the_reference_are_those_on_numpy(runs: list[Run]) -> None:
    speeds = [make_speed("NumPy as people write it", f"1 x {count}0", 0.5, ours=count / 1000) for count in (1, 2)]

    (plot,) = [plot for plot in draw_plots(runs, Book([], speeds=speeds)) if plot.id == "plot-times"]

    assert plot.rows == [["NumPy as people write it", "500", "500"], ["gradclip_spec on NumPy", "1", "2"]]


def test_coefficients_follow_the_formula_of_each_framework(runs: list[Run], make_cell: Callable[..., Cell]) -> None:
    cell = make_cell()
    finding = Finding(
        **dict.fromkeys(("title", "question", "why"), "text"),
        cause="eps-beside-maximum",
        severity="wrong",
        parameters={},
        cells={cell.subject: [cell.case]},
        rules={cell.rule: 1},
        statuses={"documented": 1},
        example={"subject": cell.subject, "case": cell.case, "detail": ""},
    )

    (plot,) = draw_plots([runs[0], replace(runs[1], findings=(finding,))], Book([]))

    # The threshold is 1 and eps is 0.1; the norms are 0.9, 1.0, 1.1 and 1.2.
    assert plot.rows == [
        ["min(1, c / n)", "1.000", "1.000", "0.909", "0.833"],
        ["c / (max(n, c) + eps)", "0.909", "0.909", "0.833", "0.769"],
    ]
    assert "min(1, c / n): torch 1.0; c / (max(n, c) + eps): paddle 1.0." in plot.caption


@pytest.mark.parametrize("place", [0.0, 1.0], ids=["at-the-bottom", "at-the-top"])
def test_names_of_lines_do_not_cover_each_other(place: float) -> None:
    axes = Axes("x", "y", {}, {}, (0, 1), (0, 1), "title")
    lines = [Line(f"line {number}", [(0.0, 0.5), (1.0, place)]) for number in range(15)]

    picture = ElementTree.fromstring(draw(lines, axes))

    places = sorted(float(text.attrib["y"]) for text in picture.iter("text") if "name" in text.attrib.get("class", ""))
    assert len(places) == 12, "more lines cannot be told apart"
    assert all(below - above >= 17 for above, below in itertools.pairwise(places))
    assert places[0] >= 14, "a name stands above the plot"
    assert places[-1] <= 400 - 46 + 4, "a name stands below the axis"


def test_times_of_one_size_are_not_drawn(runs: list[Run]) -> None:
    plots = draw_plots(runs, Book([], speeds=[make_speed("torch foreach", "1 x 10", 0.5)]))

    assert "plot-times" not in {plot.id for plot in plots}


def test_picture_of_a_plot_has_the_colours_of_the_site(runs: list[Run]) -> None:
    (plot,) = draw_plots(runs, Book([]))
    style = importlib.resources.files("gradclip_reports.site").joinpath("static", "site.css").read_text("utf-8")

    picture = frame_plot(plot)

    root = ElementTree.fromstring(picture)
    assert root.findtext("{http://www.w3.org/2000/svg}title") == f"{plot.title} {plot.caption}"
    assert set(re.findall("#[0-9a-f]{6}", picture)) <= set(re.findall("#[0-9a-f]{6}", style))
