"""Build the site of a record, and check every page, whatever the record holds."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from urllib.parse import urlsplit

from gradclip_conformance.repro.script import NoScript, write_script
from gradclip_reports.records import Cell, Run
from gradclip_reports.site import slugs
from gradclip_reports.site.build import build_site, write_mathml
from gradclip_reports.site.catalogue import Catalogue
from gradclip_spec import rules
from gradclip_spec.rules.causes import load_causes
from gradclip_spec.rules.questions import load_questions
from manual.links import find_broken_links

from .drawings import check_text, parse_strictly

__all__ = ["Page", "check_pages", "check_site"]

_NAME = re.compile(r"(\w+/)?[a-z0-9-]+\.(html|js|css)")
_TAG = re.compile(r"<([a-z][a-z0-9]*)")
_DATA = re.compile(r"gradclip[A-Z]\w+\((.*)\);\n", re.DOTALL)
#: The attributes that hold an address.
_ADDRESSES = ("href", "src", "action", "data", "formaction", "poster", "srcset", "xlink:href")
#: More findings of rules and causes need more pages, and show no text of the record in other ways.
_RULES = _CAUSES = 3


class Page(HTMLParser):
    """Collect the tags of a page, with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.feed(text)
        self.close()

    def list_values(self, name: str) -> list[str]:
        return [attributes[name] for _, attributes in self.tags if name in attributes]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))

    def handle_comment(self, data: str) -> None:
        """Refuse a comment, because the templates have none."""
        raise AssertionError(data[:200])


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
    for tag, attributes in Page(text).tags:
        assert tag in _list_tags(), f"{path.name} has the tag {tag!r}"
        acting = [one for one in attributes if one.startswith("on") or one in ("style", "srcdoc")]
        assert not acting, f"{path.name} has the attributes {acting}"
        assert tag != "script" or attributes.get("src", "").endswith("static/site.js"), f"{path.name} has a script"
        # The other addresses lead to files of the site.
        elsewhere = [attributes[name] for name in _ADDRESSES if any(urlsplit(attributes.get(name, ""))[:2])]
        assert all(map(slugs.is_safe_link, elsewhere)), f"{path.name} links to {elsewhere}"
