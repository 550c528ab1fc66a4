"""Known deviations: what a pin makes of a cell, what is wrong with pins, and what is proposed."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from gradclip_adapters.contract import Subject
from gradclip_conformance import behaviour, deviations
from gradclip_conformance.case import Case
from gradclip_conformance.cases import all_cases
from gradclip_conformance.deviations import (
    EXPECTATIONS,
    Deviation,
    load_deviations,
    pin_faults,
    pinned,
    unmatched,
    version_satisfies,
)
from gradclip_conformance.patterns import matches
from gradclip_conformance.proposals import proposal
from gradclip_conformance.verdict import Verdict
from gradclip_reports.records import Cell, Footer, Header, Run

SUBJECT = Subject("lib.clip_[fast=True]", "clip_by_global_norm", ("float32",))
CASE = next(case for case in all_cases() if case.id == "global-norm.negative-threshold-refused/minus-one/float32")
PIN = Deviation(
    subjects=("lib.clip_[*]",),
    cases=("global-norm.negative-threshold-refused/minus-one/*",),
    observed="sign-flipped",
    reason="It flips.",
    url="https://example.org/1",
    first_seen="2.0",
    last_seen="2.3",
)
FAILED = Verdict("fail", "It failed.", behaviour="sign-flipped")


def verdict_of(pin: Deviation, verdict: Verdict = FAILED, version: str = "2.3.1+cpu") -> Verdict:
    return pinned(verdict, CASE, SUBJECT, [pin], version, {"platform": "Linux-x86_64"})


class TestPinned:
    def test_failure_as_pinned_is_a_deviation_with_reason_and_url(self) -> None:
        found = verdict_of(PIN)

        assert found.status == "deviation"
        assert "It flips." in found.detail
        assert found.url == PIN.url

    @pytest.mark.parametrize(
        "verdict", [replace(FAILED, behaviour="all-zero"), Verdict("pass"), Verdict("quality", behaviour="scaled")]
    )
    def test_other_answer_and_repair_are_changed(self, verdict: Verdict) -> None:
        assert verdict_of(PIN, verdict).status == "changed"

    @pytest.mark.parametrize("status", ["documented", "unsupported", "unspecified", "crash", "timeout", "error"])
    def test_other_statuses_stay(self, status: str) -> None:
        assert verdict_of(PIN, Verdict(status)).status == status

    @pytest.mark.parametrize(
        "other",
        [
            replace(PIN, subjects=("lib.other",)),
            replace(PIN, cases=("global-norm.scaled-above/*",)),
            replace(PIN, version=">=2.4"),
            replace(PIN, platform="macOS*"),
            replace(PIN, until="2020-01-01"),
        ],
    )
    def test_pin_of_something_else_excuses_nothing(self, other: Deviation) -> None:
        assert verdict_of(other) == FAILED

    @pytest.mark.parametrize("own", [replace(PIN, version=">=2,<3"), replace(PIN, until="2999-12-31")])
    def test_pin_within_its_conditions_holds(self, own: Deviation) -> None:
        assert verdict_of(own).status == "deviation"


class TestPatterns:
    def test_star_alone_is_special(self) -> None:
        assert matches("f[a=*]", "f[a=1]")
        assert not matches("f[a=*]", "fa")
        assert not matches("f.g", "fxg")

    @pytest.mark.parametrize(
        ("version", "specifier", "satisfied"),
        [
            ("2.13.0+cpu", ">=2.6,<3", True),
            ("2.6", ">=2.6.0", True),
            ("2.10", "<2.9", False),
            ("3.0rc1", "!=3.0", False),
            ("1.8.5", "", True),
        ],
    )
    def test_version_satisfies(self, version: str, specifier: str, satisfied: bool) -> None:
        assert version_satisfies(version, specifier) is satisfied

    def test_bad_specifier_is_refused(self) -> None:
        with pytest.raises(ValueError, match="about 2"):
            version_satisfies("2", "about 2")


def cell(status: str, behaviour: str = "none", case: Case = CASE, subject: str = SUBJECT.name) -> Cell:
    return Cell(
        subject=subject,
        operation=case.operation,
        rule=case.rule,
        case=case.id,
        level="should",
        dtype=case.dtype,
        status=status,
        detail="" if status == "pass" else "What happened.",
        behaviour=behaviour,
    )


def run_of(*cells: Cell) -> Run:
    header = Header(
        suite={"name": "gradclip-spec", "version": "0"},
        adapter="lib",
        framework={"name": "Lib", "version": "2.3.1+cpu"},
        environment={"python": "3.11", "platform": "Linux-x86_64"},
        subjects=[],
        command=[],
        started="2026-11-21T00:00:00Z",
    )
    footer = Footer(planned=len(cells), finished=len(cells), counts={}, plan_sha256="")
    return Run(header, cells, footer)


class TestFaults:
    def test_pin_that_found_something_is_well(self) -> None:
        assert pin_faults(run_of(cell("deviation")), [PIN]) == []

    def test_each_pattern_must_find_something(self) -> None:
        pin = replace(PIN, cases=(*PIN.cases, "global-norm.zero-threshold/*"), subjects=(*PIN.subjects, "lib.gone"))

        assert unmatched([pin], [cell("deviation")]) == [(pin, "global-norm.zero-threshold/*"), (pin, "lib.gone")]

    @pytest.mark.parametrize("status", ["unsupported", "pass", "fail", "documented"])
    def test_cell_that_is_not_as_pinned_does_not_count(self, status: str) -> None:
        assert len(pin_faults(run_of(cell(status)), [PIN])) == len(PIN.cases) + len(PIN.subjects)

    def test_pin_of_another_version_need_not_match(self) -> None:
        assert pin_faults(run_of(cell("pass")), [replace(PIN, version="<2")]) == []

    def test_expired_and_overlapping_pins_are_faults(self) -> None:
        (expired,) = pin_faults(run_of(cell("fail")), [replace(PIN, until="2020-01-01")])
        (twice,) = pin_faults(run_of(cell("deviation")), [PIN, replace(PIN, cases=("global-norm.*",))])

        assert "expired on 2020-01-01" in expired
        assert "pinned more than once" in twice


class TestShippedFiles:
    @pytest.mark.parametrize("path", sorted(EXPECTATIONS.glob("*.toml")), ids=lambda path: path.stem)
    def test_pins_are_complete(self, path: object) -> None:
        words = set(re.findall(r"`([a-z-]+)`", behaviour.__doc__ or ""))
        for pin in load_deviations(getattr(path, "stem", "")):
            assert pin.observed in words or re.fullmatch(r"raises:[A-Za-z]+", pin.observed)
            assert re.fullmatch(r"https://github\.com/\S+|none found, 20\d\d-\d\d-\d\d", pin.url)
            assert pin.reason.endswith((".", ")"))
            for pattern in pin.cases:
                assert any(matches(pattern, case.id) for case in all_cases()), pattern

    @pytest.mark.parametrize("broken", ['reason = ""', 'resaon = "It flips."'])
    def test_incomplete_pin_is_refused(
        self, broken: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
    ) -> None:
        folder = request.getfixturevalue("tmp_path")
        lines = ["[[deviation]]", 'subjects = ["*"]', 'cases = ["*"]', 'observed = "all-nan"', broken]
        (folder / "lib.toml").write_text("\n".join([*lines, 'url = "u"', 'first_seen = "1"', 'last_seen = "1"']))
        monkeypatch.setattr(deviations, "EXPECTATIONS", folder)

        with pytest.raises(ValueError, match=r"A pin in lib\.toml lacks"):
            load_deviations.__wrapped__("lib")


class TestProposal:
    def test_failures_are_grouped_into_the_widest_patterns_that_hold_no_other_cell(self) -> None:
        cases = [case for case in all_cases() if case.rule == CASE.rule]
        cells = [
            cell("fail" if "minus-one" in case.id else "pass", "sign-flipped", case, subject)
            for case in cases
            for subject in ("lib.a", "lib.b")
        ]

        text = proposal(run_of(*cells))

        assert text.count("[[deviation]]") == 1
        assert '"lib.a"' in text
        assert '"lib.b"' in text
        assert '"global-norm.negative-threshold-refused/minus-one/*"' in text
        assert 'observed = "sign-flipped"' in text
        assert 'last_seen = "2.3.1"' in text

    def test_changed_cells_are_told(self) -> None:
        assert f"# {CASE.id} of {SUBJECT.name} has changed." in proposal(run_of(cell("changed")))
