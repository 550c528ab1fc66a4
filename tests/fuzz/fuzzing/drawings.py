"""Check every drawing of a record against its format, whatever the record holds."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

from markdown_it import MarkdownIt

from gradclip_reports.brief import draw_brief
from gradclip_reports.difference import Side, choose_subjects, compare
from gradclip_reports.difference_text import draw
from gradclip_reports.records import Run
from gradclip_reports.render import FORMATS, render
from gradclip_reports.terminal import draw_terminal

from .target import require

__all__ = ["check_differences", "check_drawings", "check_text", "parse_strictly"]

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_TAGS = re.compile(r"<[^>]*>?")
_OUR_TAGS = {"<details>", "<details open>", "</details>", "<summary>", "</summary>", "<code>", "</code>"}
_OUR_HEADINGS = {"Failures that no finding explains"}
#: Markup that a text from a record must never produce. Only our own templates use emphasis and code.
_NEVER = {"image", "link_open", "fence", "code_block", "blockquote_open", "hr", "ordered_list_open", "html_inline"}
#: A table shows a name with a bar as an HTML element, because the bar would end the cell even inside a code span.
_CODE_IN_A_CELL = re.compile(r"<code>[^<>|]*</code>")
_MARKDOWN = MarkdownIt("commonmark").enable("table")


def check_drawings(runs: Sequence[Run]) -> None:
    """Draw runs in every format, and check each drawing against its format."""
    drawn = {name: render(runs, name) for name in FORMATS}
    for text in (
        drawn["terminal"],
        draw_brief(runs),
        draw_brief(runs, width=200),
        draw_terminal(runs, width=60),
        draw_terminal(runs, width=200),
    ):
        check_text(text, "the terminal")
    check_text(_COLOURS.sub("", draw_terminal(runs, color=True)), "the terminal in colour")
    parse_strictly(drawn["json"], "json")
    check_text(drawn["json"], "json")
    check_text(drawn["markdown"], "Markdown")
    check_markdown(drawn["markdown"])
    check_text("".join(ElementTree.fromstring(drawn["junit"]).itertext()), "JUnit")
    for element in ElementTree.fromstring(drawn["junit"]).iter():
        check_texts(element.attrib, "JUnit")
    planned = sum(run.footer.planned for run in runs)
    tests = ElementTree.fromstring(drawn["junit"]).findall("testsuite/testcase")
    require(len(tests) == planned, f"JUnit has {len(tests)} tests of {planned} cells")


def check_differences(first: Run, second: Run) -> None:
    """Compare two runs, and check each report of the comparison against its format."""
    compared = compare(*(Side(run.header.heading, run, choose_subjects(run)) for run in (first, second)))
    check_text(draw(compared, "terminal"), "the difference")
    parse_strictly(draw(compared, "json"), "the difference")
    markdown = draw(compared, "markdown")
    check_text(markdown, "the difference")
    check_markdown(markdown, headings=False)


def check_text(text: str, where: str) -> None:
    """Require that a text for people holds no control characters."""
    wrong = next((character for character in text if not character.isprintable() and character != "\n"), None)
    require(wrong is None, f"{where} shows the character {wrong!r}: {text[:400]!r}")


def check_texts(document: Any, where: str) -> None:
    """Require that no text in a document holds control characters."""
    if isinstance(document, str):
        check_text(document, where)
    elif isinstance(document, dict):
        check_texts([*document, *document.values()], where)
    elif isinstance(document, list):
        for item in document:
            check_texts(item, where)


def parse_strictly(text: str, name: str) -> Any:
    """Return the JSON value of a text that must be strict JSON, without surrogates and without repeated keys."""

    def refuse_twins(members: list[tuple[str, Any]]) -> dict[str, Any]:
        require(len(dict(members)) == len(members), f"{name}: a key occurs twice: {members}")
        return dict(members)

    def refuse_constant(value: str) -> Any:
        require(False, f"{name} holds {value}")

    text.encode("utf-8")
    return json.loads(text, object_pairs_hook=refuse_twins, parse_constant=refuse_constant)


def check_markdown(text: str, *, headings: bool = True) -> None:
    """Require that tables keep their columns, and that all markup is our own."""
    require("\r" not in text, "Markdown holds a carriage return")
    width = 0
    for line in text.split("\n"):
        if not line.startswith("|"):
            width = 0
            continue
        bars = len(re.findall(r"(?<!\\)(?:\\\\)*\|", line))
        require(not width or bars == width, f"a table of {width - 1} columns has a row of {bars - 1}: {line[:300]!r}")
        width = bars
    tokens = _MARKDOWN.parse(text)
    for place, token in enumerate(tokens):
        if token.type == "heading_open" and headings:
            require(tokens[place + 1].content in _OUR_HEADINGS, f"a heading: {tokens[place + 1].content!r}")
        require(token.type not in _NEVER, f"Markdown holds a {token.type}: {token.content[:300]!r}")
        if token.type == "html_block":
            _check_tags(token.content)
        ours = _CODE_IN_A_CELL.fullmatch(token.content)
        for child in () if ours else token.children or ():
            require(child.type not in _NEVER, f"Markdown holds a {child.type}: {token.content[:300]!r}")


def _check_tags(html: str) -> None:
    for tag in _TAGS.findall(html):
        require(tag in _OUR_TAGS, f"Markdown holds the tag {tag[:80]!r}: {html[:300]!r}")
