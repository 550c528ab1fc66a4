"""Read the known failures of a framework, each pinned to an observed answer, from `expectations/<adapter>.toml`.

The file for your own adapter, `my_adapter.py`, is `my_adapter.expectations.toml` in the same folder.

A pin turns a `fail` with the pinned answer into `deviation`. A cell that passes, or has another answer, becomes
`changed`, so that repairs and new defects are noticed. A pin [[deviation]] gives:

================================ ==============================================================================
`subjects`, `cases`              patterns of names, in which only `*` is special
`version`                        a specifier such as ">=2.6,<3" (optional)
`platform`                       a pattern of the record's platform (optional)
`device`                         a pattern of the device, or of the devices, that the adapter names (optional)
`mode`                           a pattern of the text in brackets at the end of a subject's name (optional)
`observed`                       the words of `fingerprint`, "crash", "timeout", or "formula"; several words with " | "
                                 between them where the answer depends on chance
`formula`                        the formula that explains the answers, as in a claim; then `observed` is "formula"
`reason`                         the framework's behaviour and its cause, in a sentence
`url`                            the upstream thread, "none found, <date>", or "no search was made"
`first_seen`, `last_seen`        versions of the framework
`until`                          the last day on which the pin holds, as "2027-01-31" (optional)
================================ ==============================================================================
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cache
from pathlib import Path
from typing import Any

from packaging.specifiers import SpecifierSet

from gradclip_adapters.contract import Subject
from gradclip_adapters.paths import file_exists
from gradclip_reports.records import Cell, Run
from gradclip_reports.statuses import Status
from gradclip_reports.values import escape_line

from ..cases.model import Case
from ..cases.patterns import matches, matches_any
from ..cases.toml_files import add_place_to_errors, check_document, parse_toml, read_toml
from ..judge.model import Verdict
from ..judge.summary import is_same_behaviour
from ..oracle.formula import Formula
from .files import SCHEMAS, find_sidecar_file

__all__ = [
    "AGREES",
    "EXPECTATIONS",
    "FOUND",
    "Deviation",
    "apply_pins",
    "depends_on_chance",
    "find_pin_faults",
    "find_pins_file",
    "find_unmatched",
    "is_on_device",
    "is_version_within",
    "load_deviations",
    "read_deviations",
    "read_release",
]

EXPECTATIONS = Path(__file__).parent / "expectations"

#: These words are in the detail of a cell that has `changed` because it passes now.
AGREES = "agrees now"

#: If answers depend on chance, this text separates their words.
CHANCE = " | "

#: The statuses of calls that end the process. `observed` uses the same words.
DEADLY = (Status.CRASH, Status.TIMEOUT)

#: The statuses that pins give to cells.
FOUND = (Status.DEVIATION, Status.CHANGED)


@dataclass(frozen=True)
class Deviation:
    """One pin."""

    subjects: tuple[str, ...]
    cases: tuple[str, ...]
    observed: str
    reason: str
    url: str
    first_seen: str
    last_seen: str
    version: str = ""
    platform: str = "*"
    device: str = "*"
    mode: str = "*"
    until: str = ""
    formula: Formula | None = None

    def holds(self, version: str, environment: Mapping[str, str]) -> bool:
        """Return whether the pin is about this version on this platform and device, and has not expired."""
        there = matches(self.platform, environment.get("platform", "")) and is_on_device(environment, self.device)
        return there and is_version_within(version, self.version) and not self.expired

    def speaks_of(self, case: str, subject: str) -> bool:
        """Return whether the pin names a cell."""
        return (
            matches_any(self.subjects, subject)
            and matches_any(self.cases, case)
            and matches(self.mode, find_mode(subject))
        )

    def expects(self, behaviour: str) -> bool:
        """Return whether an answer is the pinned answer, or one of several pinned answers."""
        return any(is_same_behaviour(word, behaviour) for word in self.observed.split(CHANCE))

    @property
    def is_deadly(self) -> bool:
        """Whether the pinned call may end or hang the process, so that it needs a separate process."""
        return any(word in DEADLY for word in self.observed.split(CHANCE))

    @property
    def expired(self) -> bool:
        """Whether the last day of the pin has passed."""
        return bool(self.until) and datetime.date.fromisoformat(self.until) < datetime.datetime.now(datetime.UTC).date()


def find_mode(subject: str) -> str:
    """Return the text in brackets at the end of a subject's name, or an empty text if there is none."""
    found = re.search(r"\[([^\[\]]*)\]$", subject)
    return found[1] if found else ""


def is_on_device(environment: Mapping[str, str], pattern: str) -> bool:
    """Return whether the device, or the list of devices, that an adapter names matches a pattern."""
    return matches(pattern, environment.get("device", environment.get("devices", "")))


# Every cell asks this of every known failure, and parsing a specifier takes long.
@cache
def is_version_within(version: str, specifier: str) -> bool:
    """Return whether a version is within a specifier such as ">=2.6,<3".

    Only the release numbers of the version count: "3.0rc1" and "3.0+cpu" are 3.0, and a version without them is 0.

    Raises
    ------
    ValueError
        If the specifier is not valid.
    """
    try:
        return SpecifierSet(specifier).contains(read_release(version))
    except ValueError as error:
        msg = f"The version specifier {specifier!r} is not one such as '>=2.6,<3'."
        raise ValueError(msg) from error


def read_release(version: str) -> str:
    """Return the release numbers with which a version begins, or "0" if it begins with none."""
    release = re.match(r"[0-9]{1,9}(\.[0-9]{1,9}){0,9}", version)
    return release[0] if release else "0"


def load_deviations(adapter: str) -> tuple[Deviation, ...]:
    """Return the pins of an adapter's framework, or none if there is no file.

    Raises
    ------
    ValueError
        If a pin is not well-formed.
    """
    path = find_pins_file(adapter)
    if path is None or not file_exists(path):
        return ()
    return _make_deviations(read_toml(path), path.name)


def depends_on_chance(run: Run, pair: tuple[str, str]) -> bool:
    """Return whether a pin says that the answer of a run to a pair of a subject and a case depends on chance."""
    subject, case = pair
    return any(
        pin.speaks_of(case, subject) and pin.holds(run.header.framework["version"], run.header.environment)
        for pin in _list_pins_by_chance(run.header.adapter)
    )


@cache
def _list_pins_by_chance(adapter: str) -> tuple[Deviation, ...]:
    try:
        return tuple(pin for pin in load_deviations(adapter) if CHANCE in pin.observed)
    except ValueError:
        # The record may name an adapter that can have no file, or one whose file has faults.
        return ()


def find_pins_file(adapter: str) -> Path | None:
    """Return the path of an adapter's file of pins, which need not exist. Return None for a plain function.

    Raises
    ------
    ValueError
        If the name of an adapter has unusual characters.
    """
    return find_sidecar_file(adapter, "expectations", EXPECTATIONS)


@cache
def read_deviations(text: str, file: str) -> tuple[Deviation, ...]:
    """Return the pins in the text of a file.

    Raises
    ------
    ValueError
        If a pin is not well-formed.
    """
    return _make_deviations(parse_toml(text, file), file)


def _make_deviations(document: dict[str, Any], file: str) -> tuple[Deviation, ...]:
    """Return the pins of a document."""
    entries = document.get("deviation", [])
    for number, entry in enumerate(entries if isinstance(entries, list) else (), start=1):
        with add_place_to_errors(f"{file}, [[deviation]] {number}"):
            _refuse_incomplete(entry, file)
    check_document(document, SCHEMAS / "expectations.json", file)
    found = []
    for number, entry in enumerate(entries, start=1):
        with add_place_to_errors(f"{file}, [[deviation]] {number}"):
            found.append(_make_deviation(entry))
    return tuple(found)


def _refuse_incomplete(entry: Any, file: str) -> None:
    """Refuse a pin with missing or unknown keys. The message is clearer than the schema's message."""
    if not isinstance(entry, dict):
        return
    known = {field.name for field in fields(Deviation)}
    required = known - {"version", "platform", "device", "mode", "until", "formula"}
    lacking = sorted(name for name in required if entry.get(name) in (None, "", []))
    unknown = sorted(set(entry) - known)
    if lacking or unknown:
        faults = [f"lacks {', '.join(lacking)}"] if lacking else []
        faults += [f"has the unknown keys {', '.join(unknown)}"] if unknown else []
        msg = f"A pin in {file} {' and '.join(faults)}."
        raise ValueError(msg)
    if (entry["observed"] == "formula") != ("formula" in entry):
        msg = f"A pin in {file} must have both a formula and 'observed = \"formula\"', or neither."
        raise ValueError(msg)


def _make_deviation(entry: Mapping[str, Any]) -> Deviation:
    """Return the pin of an entry that satisfies the schema."""
    lists = {"subjects": tuple(entry["subjects"]), "cases": tuple(entry["cases"])}
    formula = Formula.of(entry["formula"]) if "formula" in entry else None
    made = Deviation(**{**entry, **lists, "formula": formula})
    # Parse the specifier and the day now, so that an error is not delayed until the first cell is judged.
    is_version_within("0", made.version)
    if made.until:
        datetime.date.fromisoformat(made.until)
    return made


def apply_pins(
    verdict: Verdict,
    case: Case,
    subject: Subject,
    deviations: Iterable[Deviation],
    explains: Callable[[Formula], bool],
) -> Verdict:
    """Return the verdict, given the pins.

    Parameters
    ----------
    deviations
        The pins that hold for the framework that answered.
    explains
        A function that tells whether a formula explains the answers.
    """
    for known in deviations:
        if not known.speaks_of(case.id, subject.name):
            continue
        if verdict.status in DEADLY and not known.expects(verdict.behaviour):
            return verdict
        if verdict.status in (Status.FAIL, *DEADLY):
            if explains(known.formula) if known.formula else known.expects(verdict.behaviour):
                detail = f"{verdict.detail} Known: {known.reason}"
                return verdict.change_status(Status.DEVIATION, detail=detail, url=known.url)
            detail = f"{verdict.detail} The pin says {known.observed!r}; the answer is {verdict.behaviour!r} now."
            return verdict.change_status(Status.CHANGED, detail=detail, url=known.url)
        if verdict.status in (Status.PASS, Status.QUALITY):
            detail = (
                f"The cell is pinned as a deviation ({known.observed!r}: {known.reason}) "
                f"and {AGREES} ({verdict.status})."
            )
            return verdict.change_status(Status.CHANGED, detail=detail, url=known.url)
    return verdict


def find_unmatched(deviations: Iterable[Deviation], cells: Iterable[Cell]) -> list[tuple[Deviation, str]]:
    """Return the patterns that match no deviation and no changed cell, each with its pin.

    The cells must come from a complete run, without `--rule`, `--op` and `--dtype`.
    """
    names = [(cell.case, cell.subject) for cell in cells if cell.status in FOUND]
    lost = []
    for known in deviations:
        of_it = [(case, subject) for case, subject in names if known.speaks_of(case, subject)]
        lost += [(known, p) for p in known.cases if not any(matches(p, case) for case, _ in of_it)]
        lost += [(known, p) for p in known.subjects if not any(matches(p, subject) for _, subject in of_it)]
    return lost


def find_pin_faults(run: Run, deviations: Sequence[Deviation] | None = None) -> list[str]:
    """Return a sentence about each error in the pins that a run shows.

    Parameters
    ----------
    run
        A complete run, of all rules, cases and dtypes.
    deviations
        The pins; by default, the pins of the run's adapter.
    """
    known = load_deviations(run.header.adapter) if deviations is None else deviations
    holding = [one for one in known if one.holds(run.header.framework["version"], run.header.environment)]
    faults = [f"The pin of {_name(one)} expired on {one.until}: renew or remove it." for one in known if one.expired]
    faults += [
        f"The pin of {_name(one)}: no known failure matches {pattern!r}; remove the pattern."
        for one, pattern in find_unmatched(holding, run.cells)
    ]
    for cell in run.cells:
        if len(by := [one for one in holding if one.speaks_of(cell.case, cell.subject)]) > 1:
            pins = " and ".join(map(_name, by))
            faults.append(f"{cell.case} of {cell.subject} is pinned more than once: {pins}.")
    return [escape_line(fault) for fault in faults]


def _name(known: Deviation) -> str:
    return f"{known.cases[0]} ({known.subjects[0]}, {known.observed})"
