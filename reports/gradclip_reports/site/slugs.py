"""Give pages safe file names, and say which addresses of records may become links."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

from ..values import escape_text

#: Names that Windows reserves, whatever their suffix.
_RESERVED = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)")
#: Longer names are cut. File systems allow 255 bytes, and a number and a suffix are added.
_LENGTH = 80


class Slugs:
    """Hand out file names of lower-case letters, digits, dots and hyphens, each only once."""

    def __init__(self) -> None:
        self._given: set[str] = set()

    def choose(self, text: str) -> str:
        """Return a new name that resembles a text. If that name is taken, add a number."""
        plain = re.sub(r"[^a-z0-9]+", "-", text[:1000].lower()).strip("-")[:_LENGTH].strip("-")
        if not plain or _RESERVED.fullmatch(plain):
            plain = f"page-{plain}".rstrip("-")
        name, number = plain, 1
        while name in self._given:
            number += 1
            name = f"{plain}-{number}"
        self._given.add(name)
        return name


def is_safe_link(url: object) -> bool:
    """Return whether a text is an https address of a host, which a browser cannot read in another way."""
    if not isinstance(url, str) or not url.startswith("https://") or url != escape_text(url) or re.search(r"\s", url):
        return False
    try:
        parts = urlsplit(url)
        return bool(parts.hostname) and "@" not in parts.netloc and "\\" not in url
    except ValueError:
        return False
