"""Known failures of frameworks, pinned to what was observed: `expectations/<adapter>.toml`.

An entry turns a `fail` that answers as pinned into `deviation`; one that answers otherwise, or passes, is `changed`,
so that neither a repair nor a new defect goes unseen. An entry gives: `subject` and `cases` (shell patterns), `version`
(a version specifier such as ">=2.6,<3"; optional), `platform` (a shell pattern; optional), `observed` (a word of
`behaviour`), `reason`, `url` (the upstream thread, or "none found, <date>"), `first_seen` and `last_seen` (versions),
and `until` (a date; optional).
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path

from gradclip_adapters.contract import Subject

from .case import Case
from .verdict import Verdict

__all__ = ["EXPECTATIONS", "Deviation", "load_deviations", "pinned", "version_satisfies"]

EXPECTATIONS = Path(__file__).parent / "expectations"

_COMPARISONS = {
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    ">=": lambda a, b: a >= b,
    ">": lambda a, b: a > b,
}


@dataclass(frozen=True)
class Deviation:
    """One pinned failure."""

    subject: str
    cases: tuple[str, ...]
    observed: str
    reason: str
    url: str
    first_seen: str
    last_seen: str
    version: str = ""
    platform: str = "*"
    until: str = ""

    def speaks_of(self, case: Case, subject: Subject, version: str, platform: str) -> bool:
        """Whether the entry is about this cell of this version on this platform."""
        return (
            fnmatchcase(subject.name, self.subject)
            and any(fnmatchcase(case.id, pattern) for pattern in self.cases)
            and version_satisfies(version, self.version)
            and fnmatchcase(platform, self.platform)
        )


def version_satisfies(version: str, specifier: str) -> bool:
    """Whether a version is within a comma-separated specifier; its release numbers alone are compared."""
    release = _release(version)
    for part in filter(None, (part.strip() for part in specifier.split(","))):
        found = re.fullmatch(r"(<=|>=|==|!=|<|>)\s*([0-9.]+)", part)
        if found is None:
            msg = f"The version specifier {part!r} is not a comparison such as '>=2.6'."
            raise ValueError(msg)
        wanted = _release(found[2])
        width = max(len(release), len(wanted))
        padded = [(*numbers, *(0,) * (width - len(numbers))) for numbers in (release, wanted)]
        if not _COMPARISONS[found[1]](padded[0], padded[1]):
            return False
    return True


def _release(version: str) -> tuple[int, ...]:
    found = re.match(r"[0-9]+(\.[0-9]+)*", version)
    return tuple(int(number) for number in found[0].split(".")) if found else ()


@cache
def load_deviations(adapter: str) -> tuple[Deviation, ...]:
    """The pinned failures of an adapter's framework; none where there is no file."""
    path = EXPECTATIONS / f"{adapter}.toml"
    if not path.exists():
        return ()
    entries = tomllib.loads(path.read_text(encoding="utf-8")).get("deviation", [])
    return tuple(Deviation(**{**entry, "cases": tuple(entry["cases"])}) for entry in entries)


def pinned(
    verdict: Verdict,
    case: Case,
    subject: Subject,
    deviations: Sequence[Deviation],
    version: str,
    environment: Mapping[str, str],
) -> Verdict:
    """The verdict, after what is known about this cell."""
    for known in deviations:
        if not known.speaks_of(case, subject, version, environment.get("platform", "")):
            continue
        if verdict.status == "fail":
            if verdict.behaviour == known.observed:
                detail = f"{verdict.detail} Known: {known.reason}"
                return verdict.with_status("deviation", detail=detail, url=known.url)
            detail = f"{verdict.detail} Pinned as {known.observed!r}, answers {verdict.behaviour!r} now."
            return verdict.with_status("changed", detail=detail, url=known.url)
        if verdict.status in ("pass", "quality", "documented"):
            detail = f"Pinned as a deviation ({known.observed!r}: {known.reason}), and agrees now ({verdict.status})."
            return verdict.with_status("changed", detail=detail, url=known.url)
    return verdict
