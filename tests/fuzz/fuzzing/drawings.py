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

__all__ = ["check_differences", "check_drawings", "check_reason", "check_text", "parse_strictly"]

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
    drawn = {name: render(runs, name) for name in FORMATS}
    for width in (60, 200):
        check_text(draw_terminal(runs, width=width))
        check_text(draw_brief(runs, width=width))
    check_text(_COLOURS.sub("", draw_terminal(runs, color=True)))
    check_text(drawn["terminal"])
    check_text(drawn["json"])
    parse_strictly(drawn["json"])
    check_markdown(drawn["markdown"])
    root = ElementTree.fromstring(drawn["junit"])
    for text in (*root.itertext(), *(value for element in root.iter() for value in element.attrib.values())):
        check_text(text)
    assert len(root.findall("testsuite/testcase")) == sum(run.footer.planned for run in runs)


def check_differences(first: Run, second: Run) -> None:
    """Compare two runs, and check each report of the comparison against its format."""
    compared = compare(*(Side(run.header.heading, run, choose_subjects(run)) for run in (first, second)))
    check_text(draw(compared, "terminal"))
    parse_strictly(draw(compared, "json"))
    check_markdown(draw(compared, "markdown"), headings=False)


def check_text(text: str) -> None:
    """Require that a text for people holds no control characters."""
    wrong = next((character for character in text if not character.isprintable() and character != "\n"), None)
    assert wrong is None, f"the character {wrong!r} in {text[:400]!r}"


def check_reason(text: str) -> None:
    """Require that a refusal says why, in a text that a person can read."""
    assert 0 < len(text) < 20_000


def parse_strictly(text: str) -> Any:
    """Return the JSON value of a text that must be strict JSON, without surrogates and without repeated keys."""

    def refuse_twins(members: list[tuple[str, Any]]) -> dict[str, Any]:
        assert len(dict(members)) == len(members), f"a key occurs twice: {members}"
        return dict(members)

    def refuse_constant(value: str) -> Any:
        raise AssertionError(value)

    text.encode("utf-8")
    return json.loads(text, object_pairs_hook=refuse_twins, parse_constant=refuse_constant)


def check_markdown(text: str, *, headings: bool = True) -> None:
    """Require that tables keep their columns, and that all markup is our own."""
    check_text(text)
    width = 0
    for line in text.split("\n"):
        bars = len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) if line.startswith("|") else 0
        assert 0 in (bars, width) or bars == width, f"a table of {width - 1} columns has the row {line[:300]!r}"
        width = bars
    tokens = _MARKDOWN.parse(text)
    for place, token in enumerate(tokens):
        if token.type == "heading_open" and headings:
            assert tokens[place + 1].content in _OUR_HEADINGS
        if token.type == "html_block":
            assert set(_TAGS.findall(token.content)) <= _OUR_TAGS, token.content[:300]
        children = () if _CODE_IN_A_CELL.fullmatch(token.content) else token.children or ()
        assert _NEVER.isdisjoint(each.type for each in (token, *children)), token.content[:300]
