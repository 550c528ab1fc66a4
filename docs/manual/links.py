"""Check every link of built pages: `python docs/manual/links.py FOLDER`.

A link must lead to a file of the folder and to an anchor in it. Scripts, styles and images must be files of the folder,
too, because the pages must work without a network. Other addresses of the Web are not visited.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

#: The attributes that hold an address. A browser loads these addresses by itself, except the `href` of an anchor.
ADDRESSES = ("href", "src", "srcset", "data", "poster")


class Page(HTMLParser):
    """The tags of a page with their attributes, its anchors, and its links."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str]]] = []
        self.anchors: set[str] = set()
        #: Each link says whether the browser loads it by itself.
        self.links: list[tuple[str, bool]] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep a tag."""
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        for name, value in attrs:
            if value is None:
                continue
            # A script may read choices of the page from the fragment of a link.
            if name == "id" or (tag, name) in (("a", "name"), ("option", "value")):
                self.anchors.add(value)
            if name in ADDRESSES and tag != "meta":
                # Inside a picture, `use` and `a` name a part of the picture.
                self.links.append((value, tag not in ("a", "area")))

    def list_values(self, name: str) -> list[str]:
        """Return the values of an attribute."""
        return [attributes[name] for _, attributes in self.tags if name in attributes]


def find_broken_links(folder: Path) -> Iterator[str]:
    """Yield a sentence for each broken link in the pages of a folder."""
    pages = {path.resolve(): Page(path.read_text(encoding="utf-8")) for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        for link, is_loaded in page.links:
            if fault := _find_fault(path, link, is_loaded, pages, folder.resolve()):
                yield f"{path.relative_to(folder.resolve())}: {link}: {fault}"


def _find_fault(path: Path, link: str, is_loaded: bool, pages: dict[Path, Page], folder: Path) -> str:
    """Return what is wrong with a link. The text is empty if nothing is."""
    address = urlsplit(link)
    if address.scheme == "data":
        return ""
    if address.scheme or address.netloc:
        return "it is loaded from the network" if is_loaded else ""
    target = (path.parent / unquote(address.path)).resolve() if address.path else path
    if target.is_dir():
        target /= "index.html"
    if not target.is_relative_to(folder):
        return "it leads out of the folder"
    if not target.is_file():
        return "there is no such file"
    if target in pages and not _has_anchor(pages[target], unquote(address.fragment)):
        return "the page has no such anchor"
    return ""


def _has_anchor(page: Page, anchor: str) -> bool:
    """Return whether a page has an anchor. Two dots join two anchors, and `?` begins the state of a filter."""
    if not anchor or anchor in page.anchors or anchor.startswith("?"):
        return True
    return ".." in anchor and set(anchor.split("..")) <= page.anchors


def main() -> int:
    """Print the broken links of the folder that the command line names. Return 1 if there is one."""
    folder = Path(sys.argv[1])
    broken = list(find_broken_links(folder))
    for line in broken:
        print(line)
    count = sum(1 for _ in folder.rglob("*.html"))
    print(f"{count} pages, {len(broken)} broken links")
    return 1 if broken or not count else 0


if __name__ == "__main__":
    sys.exit(main())
