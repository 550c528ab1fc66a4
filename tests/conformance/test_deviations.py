"""Check known deviations: the effect of a pin on a cell, faulty pins, and proposed pins."""

from __future__ import annotations

import datetime
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from gradclip_adapters.contract import Subject
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.cases.model import Case
from gradclip_conformance.cases.patterns import matches
from gradclip_conformance.judge import fingerprint as behaviour
from gradclip_conformance.judge.model import Verdict
from gradclip_conformance.known import pins as deviations
from gradclip_conformance.known.claims import load_claims
from gradclip_conformance.known.pins import (
    EXPECTATIONS,
    Deviation,
    apply_pins,
    depends_on_chance,
    find_mode,
    find_pin_faults,
    find_unmatched,
    is_version_within,
    load_deviations,
    read_deviations,
)
from gradclip_conformance.known.propose import CannotPin, propose_pins
from gradclip_conformance.oracle.formula import Formula
from gradclip_reports.records import Cell, Footer, Header, Run, read_runs

PUBLISHED_FOLDER = Path(__file__).resolve().parents[2] / "reports" / "published"
PUBLISHED = sorted(PUBLISHED_FOLDER.glob("*.jsonl.gz"))

SUBJECT = Subject("lib.clip_[fast=True]", "clip_by_global_norm", ("float32",))
CASE = next(case for case in list_all_cases() if case.id == "global-norm.negative-threshold-refused/minus-one/float32")
PIN = Deviation(
    subjects=("lib.clip_[*]",),
    cases=("global-norm.negative-threshold-refused/minus-one/*",),
    observed="sign-flipped:-0.6,0.8",
    reason="It flips.",
    url="https://example.org/1",
    first_seen="2.0",
    last_seen="2.3",
)
#: The text of a pin without `observed`.
BARE_PIN = """[[deviation]]
subjects = ["*"]
cases = ["*"]
reason = "It flips."
url = "u"
first_seen = "1"
last_seen = "1"
"""
FAILED = Verdict("fail", "It failed.", behaviour="sign-flipped:-0.6,0.8")
ENVIRONMENT = {"platform": "Linux-x86_64", "device": "gpu:0"}


def apply_pin(pin: Deviation, verdict: Verdict = FAILED, version: str = "2.3.1+cpu") -> Verdict:
    holding = [pin] if pin.holds(version, ENVIRONMENT) else []
    return apply_pins(verdict, CASE, SUBJECT, holding, lambda formula: formula == Formula("coefficient", 1e-6))


class TestPinned:
    def test_failure_as_pinned_is_a_deviation_with_reason_and_url(self) -> None:
        found = apply_pin(PIN)

        assert found.status == "deviation"
        assert "It flips." in found.detail
        assert found.url == PIN.url

    @pytest.mark.parametrize(
        "verdict",
        [replace(FAILED, behaviour="sign-flipped:-3,4"), Verdict("pass"), Verdict("quality", behaviour="other")],
    )
    def test_other_answer_and_repair_are_changed(self, verdict: Verdict) -> None:
        assert apply_pin(PIN, verdict).status == "changed"

    @pytest.mark.parametrize("status", ["documented", "unsupported", "unspecified", "crash", "timeout", "error"])
    def test_pin_does_not_change_other_statuses(self, status: str) -> None:
        assert apply_pin(PIN, Verdict(status)).status == status

    @pytest.mark.parametrize(
        "other",
        [
            replace(PIN, subjects=("lib.other",)),
            replace(PIN, cases=("global-norm.scaled-above/*",)),
            replace(PIN, version=">=2.4"),
            replace(PIN, version="<2.3"),
            replace(PIN, platform="macOS*"),
            replace(PIN, device="cpu"),
            replace(PIN, mode="fast=False"),
            replace(PIN, until="2020-01-01"),
        ],
    )
    def test_pin_of_another_cell_excuses_nothing(self, other: Deviation) -> None:
        assert apply_pin(other) == FAILED

    @pytest.mark.parametrize(
        "own",
        [
            replace(PIN, version=">=2,<3"),
            replace(PIN, version="==2.3.1"),
            replace(PIN, platform="Linux-*"),
            replace(PIN, device="gpu*"),
            replace(PIN, mode="fast=*"),
            replace(PIN, until="2999-12-31"),
        ],
    )
    def test_pin_within_its_conditions_holds(self, own: Deviation) -> None:
        assert apply_pin(own).status == "deviation"

    def test_pin_holds_on_its_last_day(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Clock(datetime.datetime):
            @classmethod
            def now(cls, tz: datetime.tzinfo | None = None) -> Clock:
                return cls(2027, 1, 31, 23, 59, tzinfo=tz)

        monkeypatch.setattr(datetime, "datetime", Clock)

        assert not replace(PIN, until="2027-01-31").expired
        assert replace(PIN, until="2027-01-30").expired

    def test_pin_for_a_device_matches_a_list_of_devices(self) -> None:
        known = replace(PIN, device="*GPU*")

        assert known.holds("2.3", {"devices": "/device:CPU:0 /device:GPU:0"})
        assert not known.holds("2.3", {"devices": "/device:CPU:0"})
        assert not known.holds("2.3", {})

    @pytest.mark.parametrize(
        ("subject", "mode"),
        [("lib.clip [SGD, static]", "SGD, static"), ("lib.clip(a=[1])[eager]", "eager"), ("lib.clip", "")],
    )
    def test_mode_is_the_text_in_the_last_brackets(self, subject: str, mode: str) -> None:
        assert find_mode(subject) == mode

    def test_formula_of_a_pin_excuses_what_it_explains(self) -> None:
        own = replace(PIN, observed="formula", formula=Formula("coefficient", 1e-6))
        other = replace(own, formula=Formula("coefficient", 1e-3))

        assert apply_pin(own).status == "deviation"
        assert apply_pin(other).status == "changed"
        assert apply_pin(own, Verdict("pass")).status == "changed"


class TestPatterns:
    def test_only_the_star_is_special(self) -> None:
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
            ("2.6.1", "~=2.6.0", True),
            ("2.7", "==2.6.*", False),
            ("of a nightly build", ">=1", False),
        ],
    )
    def test_version_is_compared_with_a_specifier(self, version: str, specifier: str, satisfied: bool) -> None:
        assert is_version_within(version, specifier) is satisfied

    def test_bad_specifier_is_refused(self) -> None:
        with pytest.raises(ValueError, match="about 2"):
            is_version_within("2", "about 2")
        with pytest.raises(ValueError, match=r"lib\.toml, .* The version specifier"):
            read_deviations(f'{BARE_PIN}observed = "all-nan"\nversion = "about 2"', "lib.toml")

    @pytest.mark.parametrize("name", ["../lib", "/lib", "a/b", "..\\lib", "a b", "", "lib\x00"])
    def test_a_name_that_leads_to_another_folder_is_refused(self, name: str) -> None:
        with pytest.raises(ValueError, match="is not the name of an adapter"):
            load_deviations(name)
        with pytest.raises(ValueError, match="is not the name of an adapter"):
            load_claims(name)

    def test_a_plain_function_has_no_files(self, tmp_path: Path) -> None:
        (tmp_path / "lib:f.toml").write_text("[[deviation]]\n[[claim]]\n", encoding="utf-8")
        target = f"{tmp_path}/lib:f"

        assert load_deviations(target) == ()
        assert load_claims(target) == ()


def make_cell(status: str, behaviour: str = "none", case: Case = CASE, subject: str = SUBJECT.name) -> Cell:
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


def make_run(*cells: Cell) -> Run:
    header = Header(
        suite={"name": "gradclip-spec", "version": "0"},
        adapter="lib",
        framework={"name": "Lib", "version": "2.3.1+cpu"},
        environment={"python": "3.11", **ENVIRONMENT},
        subjects=[],
        command=[],
        started="2026-11-21T00:00:00Z",
    )
    footer = Footer(planned=len(cells), finished=len(cells), counts={}, plan_sha256="")
    return Run(header, cells, footer)


class TestFaults:
    def test_pin_that_matches_has_no_fault(self) -> None:
        assert find_pin_faults(make_run(make_cell("deviation")), [PIN]) == []

    def test_each_pattern_of_a_pin_must_match(self) -> None:
        pin = replace(PIN, cases=(*PIN.cases, "global-norm.zero-threshold/*"), subjects=(*PIN.subjects, "lib.gone"))

        assert find_unmatched([pin], [make_cell("deviation")]) == [
            (pin, "global-norm.zero-threshold/*"),
            (pin, "lib.gone"),
        ]

    def test_match_of_another_pin_does_not_count(self) -> None:
        other = next(case for case in list_all_cases() if case.id.startswith("global-norm.zero-threshold/"))
        elsewhere = [make_cell("deviation", case=other, subject="lib.gone"), make_cell("deviation", case=other)]
        pin = replace(PIN, subjects=(*PIN.subjects, "lib.gone"))

        assert find_unmatched([pin], [make_cell("deviation"), *elsewhere]) == [(pin, "lib.gone")]
        pin = replace(PIN, cases=(*PIN.cases, "global-norm.zero-threshold/*"))
        assert find_unmatched([pin], [make_cell("deviation"), elsewhere[0]]) == [(pin, "global-norm.zero-threshold/*")]

    @pytest.mark.parametrize("status", ["unsupported", "pass", "fail", "documented"])
    def test_cell_counts_only_if_it_is_as_pinned(self, status: str) -> None:
        assert len(find_pin_faults(make_run(make_cell(status)), [PIN])) == len(PIN.cases) + len(PIN.subjects)

    def test_pin_of_another_version_need_not_match(self) -> None:
        assert find_pin_faults(make_run(make_cell("pass")), [replace(PIN, version="<2")]) == []

    def test_expired_and_overlapping_pins_are_faults(self) -> None:
        (expired,) = find_pin_faults(make_run(make_cell("fail")), [replace(PIN, until="2020-01-01")])
        (twice,) = find_pin_faults(make_run(make_cell("deviation")), [PIN, replace(PIN, cases=("global-norm.*",))])

        assert "expired on 2020-01-01" in expired
        assert "pinned more than once" in twice


class TestShippedFiles:
    @pytest.mark.parametrize("path", sorted(EXPECTATIONS.glob("*.toml")), ids=lambda path: path.stem)
    def test_pins_are_complete(self, path: object) -> None:
        words = {re.sub("<[^>]*>", "", word) for word in re.findall(r"`([a-zA-Z:<>-]+)`", behaviour.__doc__ or "")}
        for pin in load_deviations(getattr(path, "stem", "")):
            for word in re.sub(r" off by 2\^\d+ ulp$", "", pin.observed).split(" then "):
                assert pin.formula or re.match(r"[a-z-]+:?", word)[0] in words, word  # type: ignore[index]
            assert re.fullmatch(r"https://github\.com/\S+|none found, 20\d\d-\d\d-\d\d|no search was made", pin.url)
            assert pin.reason.endswith((".", ")"))
            for pattern in pin.cases:
                assert any(matches(pattern, case.id) for case in list_all_cases()), pattern

    @pytest.mark.parametrize("entry", ['observed = "formula"', 'observed = "all-nan"\nformula = { kind = "plain" }'])
    def test_pin_has_a_formula_if_and_only_if_it_says_that_one_was_observed(self, entry: str) -> None:
        lines = ["[[deviation]]", 'subjects = ["*"]', 'cases = ["*"]', 'reason = "It flips."', 'url = "u"']

        with pytest.raises(ValueError, match=r"lib\.toml must have both a formula"):
            read_deviations("\n".join([*lines, 'first_seen = "1"', 'last_seen = "1"', entry]), "lib.toml")

    @pytest.mark.parametrize("broken", ['reason = ""', 'resaon = "It flips."'])
    def test_incomplete_pin_is_refused(
        self, broken: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
    ) -> None:
        folder = request.getfixturevalue("tmp_path")
        lines = ["[[deviation]]", 'subjects = ["*"]', 'cases = ["*"]', 'observed = "all-nan"', broken]
        (folder / "lib.toml").write_text("\n".join([*lines, 'url = "u"', 'first_seen = "1"', 'last_seen = "1"']))
        monkeypatch.setattr(deviations, "EXPECTATIONS", folder)

        with pytest.raises(ValueError, match=r"A pin in lib\.toml lacks"):
            load_deviations("lib")


class TestProposal:
    def test_failures_are_grouped_into_the_widest_safe_patterns(self) -> None:
        cases = [case for case in list_all_cases() if case.rule == CASE.rule]
        cells = [
            make_cell("fail" if "minus-one/" in case.id else "pass", "sign-flipped:-0.6,0.8", case, subject)
            for case in cases
            for subject in ("lib.a", "lib.b")
        ]

        (pin,) = read_deviations(propose_pins(make_run(*cells), []), "lib.toml")

        assert pin.subjects == ("lib.a", "lib.b")
        assert pin.cases == ("global-norm.negative-threshold-refused/minus-one/*",)
        assert pin.observed == "sign-flipped:-0.6,0.8"
        assert (pin.first_seen, pin.last_seen) == ("2.3.1", "2.3.1")

    def test_pin_that_still_holds_gets_the_present_version(self) -> None:
        (pin,) = read_deviations(propose_pins(make_run(make_cell("deviation")), [PIN]), "lib.toml")

        assert pin == replace(PIN, last_seen="2.3.1")

    def test_pin_that_an_older_version_shows_is_first_seen_in_it(self) -> None:
        newer = replace(PIN, first_seen="2.10", last_seen="3.0+cpu")
        (pin,) = read_deviations(propose_pins(make_run(make_cell("deviation")), [newer]), "lib.toml")

        assert pin == replace(newer, first_seen="2.3.1")

    def test_pins_of_another_device_stay(self) -> None:
        elsewhere = replace(PIN, device="cpu", mode="fast=*", until="2999-12-31", formula=Formula("plain"))
        elsewhere = replace(elsewhere, observed="formula")

        assert read_deviations(propose_pins(make_run(make_cell("pass")), [elsewhere]), "lib.toml") == (elsewhere,)

    def test_passing_cells_and_expired_pins_are_not_pinned(self) -> None:
        agrees = replace(make_cell("changed"), detail=apply_pin(PIN, Verdict("pass")).detail)

        assert read_deviations(propose_pins(make_run(agrees), [PIN]), "lib.toml") == ()
        assert (
            read_deviations(propose_pins(make_run(make_cell("pass")), [replace(PIN, until="2020-01-01")]), "lib.toml")
            == ()
        )

    def test_proposal_names_faults_of_pins(self) -> None:
        assert "# The pin of" in propose_pins(make_run(make_cell("pass")), [PIN])

    @pytest.mark.exam(sample=0)
    @pytest.mark.parametrize("path", PUBLISHED, ids=lambda path: path.stem)
    def test_same_run_with_the_proposed_pins_is_as_expected(self, path: Path, pytestconfig: pytest.Config) -> None:
        (run,) = read_runs(path)
        # Many rows fail alike. Without `--all`, every eighth of them is enough.
        rows = [cell for cell in run.cells if cell.theme == "combinations"]
        left_out = set() if pytestconfig.getoption("--all") else {*map(id, rows)} - {*map(id, rows[::8])}
        # Without findings no cause is known, so that each answer is pinned.
        asked = [cell for cell in run.cells if id(cell) not in left_out]
        cells = tuple(replace(c, status="fail") if c.status == "deviation" else c for c in asked)
        failed = replace(run, cells=cells, findings=())

        pins = read_deviations(propose_pins(failed, []), path.name)
        again = replace(failed, cells=tuple(replace(c, status=_find_status(c, pins)) for c in failed.cells))

        assert find_pin_faults(again, pins) == []
        assert {c.status for c in again.cells} & {"fail", "changed"} == set()
        assert read_deviations(propose_pins(again, pins), path.name) == pins

    def test_pin_is_split_if_one_subject_answers_differently(self) -> None:
        cells = [
            make_cell("deviation", PIN.observed, subject="lib.clip_[a]"),
            replace(make_cell("changed", "all-nan", subject="lib.clip_[b]"), detail="It answers otherwise."),
        ]

        kept, new = read_deviations(propose_pins(make_run(*cells), [PIN]), "lib.toml")

        assert (kept.subjects, kept.observed, kept.reason) == (("lib.clip_[a]",), PIN.observed, PIN.reason)
        assert (new.subjects, new.observed) == (("lib.clip_[b]",), "all-nan")
        assert new.reason.startswith("To be explained")

    def test_text_of_a_record_cannot_add_a_line_to_the_pins(self) -> None:
        forged = 'lib"\n[[deviation]]\nsubjects = ["*"]\ncases = ["*"]\nobserved = "x"\nreason = "r"\nurl = "u"'
        forged += '\nfirst_seen = "1"\nlast_seen = "1"\n#'
        failed = replace(make_cell("fail", f"{forged}\x1b", subject=f"lib.{forged}".replace("*", "?")), detail=forged)
        run = make_run(failed, make_cell("pass", subject="lib.other"))
        run = replace(run, header=replace(run.header, framework={"name": forged, "version": "2.3.1"}))

        (pin,) = read_deviations(propose_pins(run, []), "lib.toml")

        assert pin.subjects == (failed.subject,)
        assert pin.observed == f"{forged}\x1b"

    @pytest.mark.parametrize("changed", [{"subject": "*"}, {"subject": "lib.*"}, {"case": "a/*/c"}, {"case": "a"}])
    def test_name_that_a_pin_would_read_as_a_pattern_is_refused(self, changed: dict[str, str]) -> None:
        with pytest.raises(CannotPin, match="cannot be pinned"):
            propose_pins(make_run(replace(make_cell("fail"), **changed)), [])

    @pytest.mark.parametrize("answer", ["formula", "all-nan | all-zero", ""])
    def test_answer_that_a_pin_cannot_name_is_refused(self, answer: str) -> None:
        with pytest.raises(CannotPin, match="cannot be pinned"):
            propose_pins(make_run(replace(make_cell("fail"), behaviour=answer)), [])

    def test_file_of_pins_keeps_its_comments(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        pin = propose_pins(make_run(make_cell("deviation")), [PIN]).partition("\n\n")[2]
        text = f"# Of a library.\n\n# Why this one is so.\n{pin}"
        (tmp_path / "lib.toml").write_text(text, encoding="utf-8")
        monkeypatch.setattr(deviations, "EXPECTATIONS", tmp_path)

        assert propose_pins(make_run(make_cell("deviation"))) == text


def _find_status(cell: Cell, pins: Sequence[Deviation]) -> str:
    """Return the status of a cell under the given pins."""
    known = next((pin for pin in pins if pin.speaks_of(cell.case, cell.subject)), None)
    if known is None or cell.status in ("unsupported", "unspecified", "documented"):
        return "fail" if known is None and cell.status == "deviation" else cell.status
    if cell.status not in ("fail", "deviation"):
        return "changed"
    return "deviation" if known.observed == cell.behaviour else "changed"


def test_only_pins_with_several_answers_depend_on_chance() -> None:
    (run,) = read_runs(PUBLISHED_FOLDER / "paddle.jsonl.gz")
    entry, other = "paddle.nn.utils.clip_grad_value_", "paddle.nn.ClipGradByValue [called]"

    assert depends_on_chance(run, (entry, "value.sparse-rows/two-of-four/float32"))
    assert not depends_on_chance(run, (other, "value.sparse-rows/two-of-four/float32"))
    assert not depends_on_chance(run, (entry, "value.bounds/max-only/float32"))
    # The pin of this entry is about Paddle 3 only.
    pair = (
        "paddle.nn.clip.set_gradient_clip [ClipGradByGlobalNorm, static]",
        "global-norm.clip-before-update/rate-quarter/float32",
    )
    header = replace(run.header, framework={**run.header.framework, "version": "2.6.2"})
    older = Run(header, run.cells, run.footer, run.findings)
    assert depends_on_chance(run, pair)
    assert not depends_on_chance(older, pair)
    # This pin names one answer.
    assert not depends_on_chance(older, ("paddle.nn.utils.clip_grad_norm_", "global-norm.scaled-above/small/float64"))


@pytest.mark.parametrize("adapter", ["no-such-framework", "../../etc/passwd", "a b\0"])
def test_record_of_an_unknown_adapter_depends_on_no_chance(adapter: str) -> None:
    (run,) = read_runs(PUBLISHED_FOLDER / "mlx.jsonl.gz")
    foreign = Run(replace(run.header, adapter=adapter), run.cells, run.footer, run.findings)

    assert not depends_on_chance(foreign, run.cells[0].pair)
