"""Draw the matrix of questions as a picture for the README, with matplotlib."""

from __future__ import annotations

import io
import re
import textwrap
from collections.abc import Mapping, Sequence

import matplotlib
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from gradclip_reports.lines import Run
from gradclip_reports.site.questions import STANDINGS, Answer, write_answer
from gradclip_reports.values import escape_line, shorten_text
from gradclip_spec.rules.questions import Question

__all__ = ["draw_picture"]

#: Sizes in pixels: the first column, the others, a line of text, and the margin.
FIRST, WIDTH, LINE, MARGIN = 250, 180, 17, 16
#: This many characters fit into the first column, and into the others.
FIRST_FITS, FITS = 36, 20
#: The greatest length of a name. Two lines of a column's head hold that many characters.
NAME = 40
#: Lines are never broken at this space.
NO_BREAK = "\u00a0"
COLOURS = {"broken": "#b3141d", "poor": "#8a4b00", "documented": "#0757b3", "right": "#116329"}
QUIET, PAPER, BAND = "#59636e", "#ffffff", "#f3f5f7"
#: Text stays text, for search and for those who do not see the picture; and equal results give equal files.
SETTINGS = {"svg.fonttype": "none", "svg.hashsalt": "gradclip-spec", "font.family": "sans-serif", "font.size": 11.5}


def draw_picture(
    questions: Sequence[Question], runs: Sequence[Run], answers: Sequence[Mapping[str, tuple[Answer, ...]]]
) -> str:
    """Return the matrix as SVG, without the questions that none of the runs answers, such as those about meshes."""
    questions = [one for one in questions if any(each[one.id][0].standing != "unknown" for each in answers)]
    rows = [
        [textwrap.wrap(question.short, FIRST_FITS), *(_wrap(write_answer(each[question.id])) for each in answers)]
        for question in questions
    ]
    heights = [12 + LINE * max(map(len, row)) for row in rows]
    width, top = 2 * MARGIN + FIRST + WIDTH * len(runs), MARGIN + 2 * LINE + 30
    height = top + sum(heights) + 3 * LINE
    with matplotlib.rc_context(SETTINGS):
        # matplotlib measures in inches, of 72 points in SVG.
        figure = Figure(figsize=(width / 72, height / 72), facecolor=PAPER)
        axes = figure.add_axes((0, 0, 1, 1), xlim=(0, width), ylim=(height, 0))
        axes.axis("off")
        columns = [MARGIN + FIRST + WIDTH * number for number in range(len(runs))]
        for x, run in zip(columns, runs, strict=True):
            name = textwrap.wrap(_clean(run.header.framework["name"], NAME), FITS)[:2]
            axes.text(x, MARGIN + 14, "\n".join(name), weight="bold", va="top")
            axes.text(
                x, MARGIN + 14 + LINE * len(name), _clean(run.header.framework["version"], FITS), color=QUIET, va="top"
            )
        for number, (question, row) in enumerate(zip(questions, rows, strict=True)):
            if number % 2 == 0:
                axes.add_patch(Rectangle((MARGIN - 6, top), width - 2 * MARGIN + 12, heights[number], color=BAND))
            axes.text(MARGIN, top + 8, "\n".join(map(_clean, row[0])), va="top")
            for x, lines, answered in zip(columns, row[1:], answers, strict=True):
                first = answered[question.id][0]
                colour = COLOURS.get(first.standing, QUIET)
                axes.text(x, top + 8, first.glyph, color=colour, weight="bold", va="top")
                axes.text(x + 18, top + 8, "\n".join(lines), color=colour, va="top")
            top += heights[number]
        legend = f"{NO_BREAK * 3} ".join(f"{glyph} {meaning}" for glyph, meaning in STANDINGS.values())
        axes.text(MARGIN, top + LINE, legend, color=QUIET, va="top")
        note = (
            "c: the threshold; n: the norm; (✗ 1 of 5): one of five entry points answers otherwise, and breaks a rule"
        )
        axes.text(MARGIN, top + 2 * LINE, note, color=QUIET, va="top")
        stream = io.StringIO()
        headings = ", ".join(_clean(run.header.heading, NAME) for run in runs)
        metadata = {"Title": f"What {headings} do when they clip gradients", "Date": None}
        figure.savefig(stream, format="svg", metadata=metadata)
    return stream.getvalue()


def _wrap(words: str) -> list[str]:
    """Return the lines of an answer. A number and its unit, or a count of entry points, stay on one line."""
    together = r"(?<=\d) (?=of \d|ulp|million|passes)|(?<=[✗≈§✓○–]) (?=\d)|(?<= of) (?=\d)|(?<=million) (?=ulp)"
    joined = re.sub(together, NO_BREAK, _clean(words))
    return [line.replace(NO_BREAK, " ") for line in textwrap.wrap(joined, FITS)][:3] or [""]


def _clean(text: str, longest: int = 200) -> str:
    # matplotlib reads a text between two dollars as a formula.
    return shorten_text(escape_line(text), longest).replace("$", r"\$")
