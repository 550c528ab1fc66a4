"""Leave out the known failures and the claims that are about entry points that a version does not have."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gradclip_reports.records import Run

from ..cases.patterns import matches
from ..judge.model import Claim
from .claims import load_claims
from .known_causes import Entry, load_known

__all__ = ["keep_claims_about", "keep_known_about"]


def keep_known_about(run: Run) -> list[Entry]:
    """Return the known failures of a run's adapter, with those patterns that match an entry point of the run."""
    kept = [
        replace(one, subjects=tuple(pattern for pattern in one.subjects if _is_there(pattern, run)))
        for one in load_known(run.header.adapter)
    ]
    return [one for one in kept if one.subjects]


def keep_claims_about(run: Run) -> list[Claim]:
    """Return the claims of a run's adapter that are about an entry point of the run."""
    return [claim for claim in load_claims(run.header.adapter) if _is_there(claim.subject, run)]


def _is_there(pattern: str, run: Run) -> bool:
    names: Iterable[str] = (subject["name"] for subject in run.header.subjects)
    return any(matches(pattern, name) for name in names)
