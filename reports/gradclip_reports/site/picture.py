"""Draw the matrix of questions as a table in Markdown and as a picture, and make pictures of plots.

Pages show a picture as an image, so it has its own background. It has one set of colours for light pages and one for
dark pages.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from html import escape

from ..lines import Run
from ..markup import draw_markdown_table, escape_markdown
from ..values import escape_line, shorten_text
from .book import Question
from .plots import Plot
from .questions import STANDINGS, Answer, write_answer

__all__ = ["draw_picture", "draw_table", "frame_plot"]

Answers = Sequence[Mapping[str, tuple[Answer, ...]]]

#: Sizes in pixels: the first column, the others, a line of text, and the margin.
_FIRST, _WIDTH, _LINE, _MARGIN = 250, 172, 18, 16
#: This many characters of 13 pixels fit into the columns.
_FIRST_FITS, _FITS = 36, 20
#: Lines are never broken at this space.
_NO_BREAK = "\u00a0"
#: The greatest length of a name. Two lines of a column's head hold that many characters.
_NAME = 40

_STYLE = """
.paper { fill: #ffffff } .band { fill: #f3f5f7 } .rule { stroke: #d0d7de }
text { font: 13px system-ui, -apple-system, "Segoe UI", "Noto Sans", sans-serif; fill: #1f2328 }
.head { font-weight: 600 } .quiet { fill: #59636e }
.broken { fill: #b3141d } .poor { fill: #8a4b00 } .documented { fill: #0757b3 } .right { fill: #116329 }
.measured, .unknown { fill: #59636e }
@media (prefers-color-scheme: dark) {
.paper { fill: #0d1117 } .band { fill: #161b22 } .rule { stroke: #3d444d }
text { fill: #f0f6fc } .quiet { fill: #a3adb8 }
.broken { fill: #ff8f88 } .poor { fill: #e3b341 } .documented { fill: #79b8ff } .right { fill: #56d364 }
.measured, .unknown { fill: #a3adb8 }
}"""

#: The colours of a plot: those of `static/site.css`, which a picture outside of the site cannot use.
_PLOT_STYLE = """
.paper { fill: #ffffff } .grid { stroke: #d0d7de }
text { font: 13px system-ui, -apple-system, "Segoe UI", "Noto Sans", sans-serif; fill: #1f2328 } .axis { fill: #57606a }
path { fill: none; stroke-width: 2.2 } path.leader { stroke-width: 0.8; stroke-dasharray: 1 3 }
.l0 { stroke: #0f5323; color: #0f5323 } .l1 { stroke: #a40e26; color: #a40e26 }
.l2 { stroke: #0550ae; color: #0550ae } .l3 { stroke: #7a4100; color: #7a4100 }
.l4 { stroke: #57606a; color: #57606a } .l5 { stroke: #1f2328; color: #1f2328 }
text.name { font-size: 12px; font-weight: 600; stroke: none; fill: currentColor }
circle { fill: currentColor }
@media (prefers-color-scheme: dark) {
.paper { fill: #0d1117 } .grid { stroke: #3d444d } text { fill: #f0f6fc } .axis { fill: #a3adb8 }
.l0 { stroke: #6ee787; color: #6ee787 } .l1 { stroke: #ff9d96; color: #ff9d96 }
.l2 { stroke: #79b8ff; color: #79b8ff } .l3 { stroke: #e3b341; color: #e3b341 }
.l4 { stroke: #a3adb8; color: #a3adb8 } .l5 { stroke: #f0f6fc; color: #f0f6fc }
}"""


def draw_table(questions: Sequence[Question], runs: Sequence[Run], answers: Answers) -> str:
    """Return the matrix as a table in Markdown."""
    rows = [["", *(escape_markdown(run.header.heading) for run in runs)]]
    for question in questions:
        cells = [f"{one[question.id][0].glyph} {write_answer(one[question.id])}" for one in answers]
        rows.append([escape_markdown(question.short), *map(escape_markdown, cells)])
    return draw_markdown_table(rows)


def draw_picture(questions: Sequence[Question], runs: Sequence[Run], answers: Answers) -> str:
    """Return the matrix as SVG, with a title and a description for those who do not see it."""
    width = 2 * _MARGIN + _FIRST + _WIDTH * len(runs)
    rows = [_Row(question, [one[question.id] for one in answers]) for question in questions]
    top = _MARGIN + 2 * _LINE + 22
    notes = list(_list_notes(questions))
    height = top + sum(row.height for row in rows) + (2 + len(notes)) * _LINE + _MARGIN
    names = ", ".join(run.header.heading for run in runs)
    parts = [
        (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}"'
            ' role="img" aria-labelledby="title description">'
        ),
        f'<title id="title">{_clean(f"What {names} do when they clip gradients")}</title>',
        f'<desc id="description">{_clean(" ".join(row.describe(runs) for row in rows))}</desc>',
        f"<style>{_STYLE}\n</style>",
        f'<rect class="paper" width="{width}" height="{height}" rx="6"/>',
    ]
    for number, run in enumerate(runs):
        parts += _draw_head(run, _MARGIN + _FIRST + number * _WIDTH)
    for number, row in enumerate(rows):
        if number % 2 == 0:
            parts.append(
                f'<rect class="band" x="{_MARGIN - 6}" y="{top}" width="{width - 2 * _MARGIN + 12}"'
                f' height="{row.height}" rx="3"/>'
            )
        parts += row.draw(top)
        top += row.height
    parts += [
        f'<text class="quiet" xml:space="preserve" x="{_MARGIN}" y="{top + line * _LINE}">{text}</text>'
        for line, text in enumerate(notes, start=2)
    ]
    return "\n".join([*parts, "</svg>"]) + "\n"


def frame_plot(plot: Plot) -> str:
    """Return a plot of the site as a picture of its own, with a background, colours and a description."""
    start, end, rest = plot.svg.partition(">")
    title = f"<title>{_clean(f'{plot.title} {plot.caption}')}</title>"
    paper = '<rect class="paper" width="100%" height="100%" rx="6"/>'
    start = start.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    return "\n".join([start + end, title, f"<style>{_PLOT_STYLE}\n</style>", paper + rest]) + "\n"


class _Row:
    """One question, with the lines of its answers."""

    def __init__(self, question: Question, answers: Sequence[tuple[Answer, ...]]) -> None:
        self.question = question
        self.answers = answers
        self.lines = [_wrap(write_answer(one)) for one in answers]
        self.title = textwrap.wrap(question.short, _FIRST_FITS)
        self.height = 12 + _LINE * max(len(self.title), *map(len, self.lines))

    def draw(self, top: int) -> list[str]:
        """Return the texts of the row, whose upper edge is at `top`."""
        parts = [_write(line, _MARGIN, top + 20 + _LINE * i) for i, line in enumerate(self.title)]
        for number, (lines, answers) in enumerate(zip(self.lines, self.answers, strict=True)):
            x = _MARGIN + _FIRST + number * _WIDTH
            standing = answers[0].standing
            parts.append(_write(answers[0].glyph, x, top + 20, f"head {standing}"))
            parts += [_write(line, x + 18, top + 20 + _LINE * i, standing) for i, line in enumerate(lines)]
        return parts

    def describe(self, runs: Sequence[Run]) -> str:
        """Return the row as a sentence."""
        told = [
            f"{run.header.heading}: {write_answer(one)}, {STANDINGS[one[0].standing][1]}"
            for run, one in zip(runs, self.answers, strict=True)
        ]
        return f"{self.question.text} {'; '.join(told)}."


def _wrap(words: str) -> list[str]:
    # Keep a number and its unit on one line, and also a count of entry points, such as "1 of 5".
    kept = re.sub(
        r"(?<=\d) (?=of \d|ulp|million|passes)|(?<= of) (?=\d)|(?<=million) (?=ulp)", _NO_BREAK, escape_line(words)
    )
    return [line.replace(_NO_BREAK, " ") for line in textwrap.wrap(kept, _FITS)][:3] or [""]


def _draw_head(run: Run, x: int) -> list[str]:
    name = shorten_text(escape_line(run.header.framework["name"]), _NAME)
    lines = textwrap.wrap(name, _FITS)[:2]
    version = shorten_text(escape_line(run.header.framework["version"]), _FITS)
    parts = [_write(line, x, _MARGIN + 14 + _LINE * i, "head") for i, line in enumerate(lines)]
    return [*parts, _write(version, x, _MARGIN + 14 + _LINE * len(lines), "quiet")]


def _list_notes(questions: Sequence[Question]) -> Iterator[str]:
    """Yield the lines below the table as markup: the signs, the letters, and why a question has no answer."""
    yield "   ".join(
        f'<tspan class="{standing}">{glyph}</tspan> {meaning}' for standing, (glyph, meaning) in STANDINGS.items()
    )
    yield "c: the threshold; n: the norm; (1 of 5): what one of five entry points does"
    yield from (_clean(f"{one.short}: {one.why}") for one in questions if one.measure == "none")


def _write(text: str, x: int, y: int, classes: str = "") -> str:
    styled = f' class="{classes}"' if classes else ""
    return f'<text{styled} x="{x}" y="{y}">{_clean(text)}</text>'


def _clean(text: str) -> str:
    return escape(escape_line(text))
