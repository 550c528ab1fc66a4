"""Find the known failures and claims of an adapter that a run contradicts."""

from __future__ import annotations

from gradclip_reports.records import Run

from .absent import keep_claims_about, keep_known_about
from .claims import find_claim_faults, load_claims
from .known_causes import find_known_faults, load_known
from .pins import Deviation, find_pin_faults

__all__ = ["find_faults"]


def find_faults(run: Run, version: str = "") -> list[str]:
    """Return a sentence for each known failure or claim that a run contradicts.

    `version` is the version of the framework that the user named. The files are about the version that the project
    tests, and another version may lack entry points.
    """
    known = keep_known_about(run) if version else load_known(run.header.adapter)
    claims = keep_claims_about(run) if version else load_claims(run.header.adapter)
    pins = [one for one in known if isinstance(one, Deviation)]
    return [*find_pin_faults(run, pins), *find_known_faults(run, known), *find_claim_faults(run, claims)]
