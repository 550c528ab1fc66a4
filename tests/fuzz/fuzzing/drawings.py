"""Check every drawing and every site of a record against its format, whatever the record holds."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree

from markdown_it import MarkdownIt

from gradclip_conformance.repro.script import NoScript, write_script
from gradclip_reports.brief import draw_brief
from gradclip_reports.difference import Side, choose_entry_points, compare
from gradclip_reports.difference_text import draw
from gradclip_reports.records import Cell, Run
from gradclip_reports.render import FORMATS, render
from gradclip_reports.site import slugs
from gradclip_reports.site.build import build_site, write_mathml
from gradclip_reports.site.catalogue import Catalogue
from gradclip_reports.terminal import draw_terminal
from gradclip_spec import rules
from gradclip_spec.rules.causes import load_causes
from gradclip_spec.rules.questions import load_questions
from manual.links import Page, find_broken_links

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
    compared = compare(*(Side(run.header.heading, run, choose_entry_points(run)) for run in (first, second)))
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


# Sites.

_NAME = re.compile(r"(\w+/)?[a-z0-9-]+\.(html|js|css)")
_TAG = re.compile(r"<([a-z][a-z0-9]*)")
_DATA = re.compile(r"gradclip[A-Z]\w+\((.*)\);\n", re.DOTALL)
#: The attributes that hold an address.
_ADDRESSES = ("href", "src", "action", "data", "formaction", "poster", "srcset", "xlink:href")
#: More findings of rules and causes need more pages, and show no text of the record in other ways.
_RULES = _CAUSES = 3


@cache
def _load_catalogue() -> Catalogue:
    return Catalogue(load_questions(), rules.load()[:_RULES], tuple(load_causes().values())[:_CAUSES])


@cache
def _list_tags() -> frozenset[str]:
    """Return the tags that the templates and the formulas have. Any other tag comes from a record."""
    package = files("gradclip_reports.site")
    templates = [one for one in (package / "templates").iterdir() if one.name.endswith(".html")]
    written = [one.read_text("utf-8") for one in templates]
    written += map(write_mathml, {rule.formula for rule in rules.load() if rule.formula})
    return frozenset(tag for text in written for tag in _TAG.findall(text))


def check_site(runs: Sequence[Run], folder: Path) -> None:
    """Build the site of runs in a folder, and require that no text of them acts in it."""
    check_pages(folder, build_site([(run, "record.jsonl") for run in runs], folder, _load_catalogue(), _write_script))


def _write_script(run: Run, cell: Cell) -> str:
    try:
        return write_script(run.header, cell)
    except NoScript:
        return ""


def check_pages(folder: Path, count: int) -> None:
    """Require that a folder holds this number of files of a site, and that each of them is safe."""
    paths = {path.relative_to(folder).as_posix(): path for path in folder.rglob("*") if path.is_file()}
    assert count == len(paths)
    for name, path in paths.items():
        assert _NAME.fullmatch(name), name
        text = path.read_text("utf-8")
        if name.startswith("data/"):
            _check_data(text)
        elif name.endswith(".html"):
            _check_page(text, path)
    assert list(find_broken_links(folder)) == []


def _check_data(text: str) -> None:
    """Require a call with JSON that no text can end."""
    check_text(text)
    assert "<" not in text
    call = _DATA.fullmatch(text)
    assert call, text[:200]
    parse_strictly(f"[{call[1]}]")


def _check_page(text: str, path: Path) -> None:
    """Require that a page has no tags but ours, no scripts but ours, and no links but safe ones."""
    check_text(text)
    assert "<!--" not in text, "the templates have no comments"
    for tag, attributes in Page(text).tags:
        assert tag in _list_tags(), f"{path.name} has the tag {tag!r}"
        acting = [one for one in attributes if one.startswith("on") or one in ("style", "srcdoc")]
        assert not acting, f"{path.name} has the attributes {acting}"
        assert tag != "script" or attributes.get("src", "").endswith("static/site.js"), f"{path.name} has a script"
        # The other addresses lead to files of the site.
        elsewhere = [attributes[name] for name in _ADDRESSES if any(urlsplit(attributes.get(name, ""))[:2])]
        assert all(map(slugs.is_safe_link, elsewhere)), f"{path.name} links to {elsewhere}"
