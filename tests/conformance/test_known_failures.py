"""Check known failures: which answers an entry excuses, faulty entries, and proposed entries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from runs import make_adapter, run_rules

from gradclip_adapters.contract import Call, EntryPoint
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.cases.patterns import matches_any
from gradclip_conformance.cases.shards import find_case_on, make_cases_on
from gradclip_conformance.judge.model import Answer, Description, Died, Raised, TimedOut
from gradclip_conformance.known.claims import load_claims
from gradclip_conformance.known.failures import (
    EXPECTATIONS,
    KnownFailure,
    depends_on_chance,
    load_known,
    read_known,
)
from gradclip_conformance.known.faults import find_faults, find_known_faults
from gradclip_conformance.known.files import holds, is_version_within
from gradclip_conformance.known.propose import CannotPropose, propose_known
from gradclip_conformance.run.in_process import WithoutProcess
from gradclip_conformance.run.plan import Selection, plan_cells
from gradclip_conformance.run.runner import Knowledge, run_cell
from gradclip_reports.counting import count_rules
from gradclip_reports.records import Run, read_runs

OVERFLOW = KnownFailure(
    cause="squares-overflow",
    parameters=(("effect", ("zeros",)),),
    subjects=("*",),
    reason="The sum of squares overflows.",
    url="none found",
    checked="2026-11-23",
)
RULE = "global-norm.overflow-of-squares"
#: An entry without a cause.
FAILING = replace(OVERFLOW, cause="", parameters=(), rules=(RULE,))


def clip(grads: Any, *, clip_norm: float) -> list[Any]:
    """Sum the squares in the gradients' dtype."""
    with np.errstate(all="ignore"):
        norm = np.sqrt(sum(np.sum(g * g, dtype=g.dtype) for g in grads))
        return [g * min(np.float32(1), np.float32(clip_norm) / norm) for g in grads]


def make_nan(grads: Any, *, clip_norm: float) -> list[Any]:
    """Return NaN where the squares overflow."""
    return [g * np.float32(np.nan) if not g.any() else g for g in clip(grads, clip_norm=clip_norm)]


def forget_the_gradients(grads: Any, *, clip_norm: float) -> list[Any]:
    """Return numbers that no cause explains."""
    return [np.cos(g) * np.float32(0.37) for g in grads]


def run_known(function: Callable[..., Any], *known: KnownFailure, rule: str = RULE, dtype: str = "float32") -> Run:
    """Return the run of a function with known failures on a rule."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gradclip_conformance.run.runner.load_known_of", lambda *about: known)
        return run_rules(make_adapter(function, dtype=dtype), rule, dtypes=(dtype,))


def find_statuses(function: Callable[..., Any], *known: KnownFailure) -> set[str]:
    return {cell.status for cell in run_known(function, *known).cells} - {"pass", "unsupported", "quality"}


@pytest.mark.parametrize(
    ("changes", "statuses"),
    [
        ({}, {"known"}),
        ({"parameters": (("effect", ("z*", "nan")),)}, {"known"}),
        ({"parameters": (("effect", ("nan",)),)}, {"fail"}),
        ({"parameters": (("eps", (1e-6,)),)}, {"fail"}),
        ({"cause": "squares-underflow", "parameters": ()}, {"fail"}),
        ({"cause": "excluded-counted", "parameters": ()}, {"fail"}),
        ({"subjects": ("other.*",)}, {"fail"}),
        ({"rules": ("global-norm.scaled-above",)}, {"fail"}),
        ({"rules": (RULE,)}, {"known"}),
        ({"cause": "", "parameters": (), "rules": (RULE,)}, {"known"}),
        ({"cause": "", "parameters": (), "rules": ("global-norm.scaled-above",)}, {"fail"}),
    ],
)
def test_entry_excuses_what_its_cause_reproduces(changes: dict[str, Any], statuses: set[str]) -> None:
    assert find_statuses(clip, replace(OVERFLOW, **changes)) == statuses


def test_answer_with_another_cause_is_excused_only_by_an_entry_without_a_cause() -> None:
    assert find_statuses(make_nan, OVERFLOW) == {"fail"}
    assert find_statuses(lambda grads, *, clip_norm: [g + 1 for g in grads], OVERFLOW) == {"fail"}
    assert find_statuses(make_nan, OVERFLOW, FAILING) == {"known"}
    run = run_known(clip, replace(FAILING, reason="Because."), OVERFLOW)
    assert {cell.detail.partition("Known: ")[2] for cell in run.cells if cell.status == "known"} == {OVERFLOW.reason}


@pytest.mark.parametrize(("eps", "status"), [(1e-6, "known"), (1e-5, "fail"), (1e-8, "fail")])
def test_entry_with_a_number_excuses_this_number_only(eps: float, status: str) -> None:
    entry = replace(OVERFLOW, cause="eps-in-coefficient", parameters=(("eps", (1e-6,)),))

    def add_eps(grads: Any, *, clip_norm: float) -> list[Any]:
        norm = np.sqrt(sum(np.sum(g * g) for g in grads))
        return [g * min(1.0, clip_norm / (norm + eps)) for g in grads]

    run = run_known(add_eps, entry, rule="global-norm.scaled-above/three-four-five/*", dtype="float64")

    assert [cell.status for cell in run.cells] == [status]


@pytest.mark.parametrize(
    ("about", "environment", "held"),
    [
        ({"versions": "==2.3.1"}, {}, True),
        ({"versions": ">=2.4"}, {}, False),
        ({"devices": "gpu*"}, {"device": "gpu:0"}, True),
        ({"devices": "cpu"}, {"device": "gpu:0"}, False),
        ({"devices": "*GPU*"}, {"devices": "/device:CPU:0 /device:GPU:0"}, True),
        ({"devices": "*GPU*"}, {"devices": "/device:CPU:0"}, False),
        ({"devices": "*GPU*"}, {}, False),
    ],
)
def test_entry_is_about_versions_and_devices(about: Any, environment: dict[str, str], held: bool) -> None:
    assert holds(replace(OVERFLOW, **about), "2.3.1+cpu", environment) is held


@pytest.mark.parametrize(
    ("version", "specifier", "satisfied"),
    [
        ("2.13.0+cpu", ">=2.6,<3", True),
        ("3.0rc1", "!=3.0", False),
        ("1.8.5", "", True),
        ("of a nightly build", ">=1", False),
    ],
)
def test_version_is_compared_with_a_specifier(version: str, specifier: str, satisfied: bool) -> None:
    assert is_version_within(version, specifier) is satisfied


@pytest.mark.parametrize("name", ["../lib", "/lib", "a/b", "..\\lib", "a b", "", "lib\x00"])
def test_name_that_leads_to_another_folder_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="is not the name of an adapter"):
        load_known(name)
    with pytest.raises(ValueError, match="is not the name of an adapter"):
        load_claims(name)


def test_plain_function_has_no_files(tmp_path: Path) -> None:
    (tmp_path / "lib:f.toml").write_text("[[known]]\n[[claim]]\n", encoding="utf-8")
    target = f"{tmp_path}/lib:f"

    assert load_known(target) == ()
    assert load_claims(target) == ()


def test_cells_of_one_entry_are_one_finding_with_its_reason() -> None:
    both = replace(OVERFLOW, cause="raises", reason="It refuses.", parameters=(("error", ("TypeError", "OSError")),))

    def refuse(grads: Any, *, clip_norm: float) -> Any:
        raise (TypeError if len(grads) == 1 else OSError)("no kernel")

    run = run_known(refuse, both, rule="global-norm.scaled-above")

    assert {cell.status for cell in run.cells} == {"known"}
    (finding,) = run.findings
    assert (finding.reason, finding.url) == ("It refuses.", "none found")
    assert finding.parameters == {"error": "OSError | TypeError", "text": "no kernel"}


def test_unexplained_failures_of_an_entry_are_a_finding_of_their_own() -> None:
    entry = replace(FAILING, rules=("*/two-tensors/*",))
    run = run_known(forget_the_gradients, entry)

    assert {cell.status for cell in run.cells} >= {"fail", "known"}
    assert [(one.spoils, one.reason) for one in run.findings] == [(True, None), (False, entry.reason)]


def clip_only_what_overflows(grads: Any, *, clip_norm: float) -> list[Any]:
    """Return numbers that no cause explains, unless the squares overflow."""
    clipped = clip(grads, clip_norm=clip_norm)
    return forget_the_gradients(grads, clip_norm=clip_norm) if any(g.any() for g in clipped) else clipped


@pytest.mark.thorough(sample=0)
def test_known_cause_is_named_although_most_failures_are_unexplained() -> None:
    run = run_known(clip_only_what_overflows, OVERFLOW, rule="global-norm.*")

    known = {cell.case for cell in run.cells if cell.status == "known"}
    assert 0 < len(known) < sum(cell.status == "fail" for cell in run.cells)
    named = {one.cause: set().union(*one.cells.values()) for one in run.findings}
    assert named["squares-overflow"] == known


def find_outdated(run: Run, entry: KnownFailure) -> list[str]:
    return [pattern for pattern, _ in find_known_faults(run, [entry])]


def test_entry_without_a_reason_is_counted() -> None:
    run = run_known(clip, replace(OVERFLOW, reason=""))

    assert count_rules([run]).without_reason == 1


def test_pattern_that_nothing_shows_is_out_of_date() -> None:
    run = run_known(clip, OVERFLOW)
    wider = replace(OVERFLOW, subjects=("*", "other.*"))

    assert find_outdated(run, OVERFLOW) == []
    ((_, fault),) = find_known_faults(run, [wider])
    assert "'squares-overflow': no entry point that matches 'other.*' shows it" in fault
    assert find_outdated(run, replace(wider, versions="<0")) == []
    assert find_outdated(run, replace(wider, by_chance=True)) == []
    # The run was not asked these rules, or was asked them and nothing showed the cause.
    assert find_outdated(run, replace(wider, rules=("*.combinations*",))) == []
    assert find_outdated(run, replace(wider, rules=("global-norm.*",))) == ["other.*"]
    assert find_outdated(run, replace(OVERFLOW, cause="squares-underflow")) == ["*"]
    assert find_outdated(run, FAILING) == []
    assert find_outdated(run, replace(FAILING, rules=("*/threshold-*",), subjects=("other",))) == []
    ((_, fault),) = find_known_faults(run, [replace(FAILING, subjects=("other",))])
    assert "of 'global-norm.overflow-of-squares': no entry point that matches 'other' shows it" in fault


def test_other_versions_may_lack_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    run = run_known(clip, OVERFLOW)
    gone = (replace(OVERFLOW, subjects=("other.*",)),)
    monkeypatch.setattr("gradclip_conformance.known.faults.load_known", lambda adapter: gone)

    assert len(find_faults(run)) == 1
    assert find_faults(run, "0.9") == []


@dataclass
class Scripted(WithoutProcess):
    """A connection that gives one answer, and records what happens to its process."""

    answer: Answer
    events: list[str] = field(default_factory=list)
    description: Description = field(
        default=Description("fake", "1.0", {}, (EntryPoint("fake.clip", "clip_by_norm", ("float32",)),))
    )

    def ask(self, call: Call, timeout: float) -> Answer:
        self.events.append("asked")
        return self.answer

    def renew(self) -> None:
        self.events.append("renewed")


ALONE = ["asked", "renewed", "asked", "renewed"]
DIED, SLOW, RAISED = Died("ended by signal SIGSEGV"), TimedOut(1.0), Raised("OSError", "dimension 97")


@pytest.mark.parametrize(
    ("answer", "causes", "status", "events"),
    [
        (DIED, ["crashes"], "known", ALONE),
        (DIED, ["raises", "crashes"], "known", ALONE),
        (SLOW, ["hangs"], "known", ALONE),
        (RAISED, ["raises", "crashes"], "known", ["asked"]),
        (DIED, ["hangs"], "crash", ["asked"]),
        (SLOW, ["crashes"], "timeout", ["asked"]),
        # An entry without a cause excuses no call that ends its process.
        (DIED, [""], "crash", ["asked"]),
    ],
)
def test_known_crash_must_happen_in_a_process_of_its_own(
    answer: Answer, causes: Sequence[str], status: str, events: Sequence[str]
) -> None:
    connection = Scripted(answer)
    (planned,) = plan_cells(
        connection.description.subjects,
        list_all_cases(),
        Selection(cases=("norm.scaled-above/three-four-five/float32",)),
    )
    known = [replace(OVERFLOW, cause=cause, parameters=()) for cause in causes]

    cell = run_cell(connection, planned, 1.0, Knowledge(known=known))

    assert (cell.status, connection.events) == (status, events)


def run_with_file(function: Callable[..., Any], text: str, folder: Path, *rules: str) -> Run:
    """Run a function whose known failures have this text."""
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):
        patch.setattr("gradclip_conformance.known.failures.EXPECTATIONS", folder)
        (folder / "lib.toml").write_text(text, encoding="utf-8")
        return run_rules(make_adapter(function), *(rules or (RULE,)), name="lib")


def test_proposal_has_an_entry_without_a_reason_for_each_cause(tmp_path: Path) -> None:
    rules = (RULE, "global-norm.underflow-of-squares")
    proposed = propose_known(run_with_file(clip_in_dtype, "", tmp_path, *rules), "")

    entries = {one.cause: one for one in read_known(proposed, "lib.toml")}

    assert entries.keys() == {"squares-overflow", "squares-underflow"}
    overflow = entries["squares-overflow"]
    assert (overflow.parameters, overflow.reason, overflow.url) == (
        (("effect", ("norm", "zeros")),),
        "",
        "no search was made",
    )
    # With the proposed entries the failures are known, and the next proposal keeps the file, comments and all.
    text = f"# Known failures of a library.\n\n# The squares.\n\n{proposed.split(chr(10), 2)[2]}"
    again = run_with_file(clip_in_dtype, text, tmp_path, *rules)
    assert {cell.status for cell in again.cells} & {"fail", "known"} == {"known"}
    assert propose_known(again, text) == text
    # Without blank lines between the entries, they are written anew.
    assert propose_known(again, proposed.replace("\n\n", "\n")) == proposed


def test_proposal_names_the_rules_or_cases_of_unexplained_failures(tmp_path: Path) -> None:
    run = run_with_file(forget_the_gradients, "", tmp_path)
    text = propose_known(run, "")

    (entry,) = read_known(text, "lib.toml")

    assert (entry.cause, entry.rules) == ("", (RULE,))
    again = run_with_file(forget_the_gradients, text, tmp_path)
    assert {cell.status for cell in again.cells} & {"fail", "known"} == {"known"}
    # If another case of the rule passes, the entry names the cases.
    cells = [replace(cell, status="pass", detail="") if i == 0 else cell for i, cell in enumerate(run.cells)]
    (narrow,) = read_known(propose_known(replace(run, cells=tuple(cells)), ""), "lib.toml")
    assert set(narrow.rules) == {cell.case for cell in cells if cell.status == "fail"}


def test_proposal_removes_what_no_longer_shows(tmp_path: Path) -> None:
    text = "# Known failures.\n\n# Why." + ENTRY.replace('["*"]', '["*", "other.*"]').replace(", eps = 1e-6", "")
    text += ENTRY.replace("squares-overflow", "squares-underflow").replace(", eps = 1e-6", "")
    proposed = propose_known(run_with_file(clip, text, tmp_path), text)

    (left,) = read_known(proposed, "lib.toml")

    assert (left.cause, left.subjects) == ("squares-overflow", ("*",))
    assert proposed.startswith("# Known failures.\n\n# Why.\n[[known]]\n")


def test_text_of_a_record_cannot_add_a_line_to_the_proposal() -> None:
    forged = 'lib"\n[[known]]\nsubjects = ["*"]\nrules = ["*"]\nreason = ""\nurl = "u"\nchecked = ""\n#\x1b'
    run = run_known(clip)
    run = rename(replace(run, header=replace(run.header, framework={"name": forged, "version": "2"})), forged)

    with pytest.raises(CannotPropose, match="cannot be recorded"):
        propose_known(run, "")
    (entry,) = read_known(propose_known(rename(run, forged.replace("*", "?")), ""), "lib.toml")

    assert entry.subjects == (forged.replace("*", "?"),)


def rename(run: Run, entry_point: str) -> Run:
    """Return a run whose only entry point has another name."""
    findings = [replace(one, cells={entry_point: list(*one.cells.values())}) for one in run.findings]
    return replace(run, cells=tuple(replace(cell, subject=entry_point) for cell in run.cells), findings=tuple(findings))


ENTRY = """
[[known]]
cause = "squares-overflow"
parameters = { effect = ["zeros", "nan"], eps = 1e-6 }
subjects = ["*"]
reason = ""
url = "no search was made"
checked = ""
"""


def clip_in_dtype(grads: Any, *, clip_norm: float) -> Any:
    """Sum the squares in the gradients' dtype, and return the norm, too."""
    with np.errstate(all="ignore"):
        norm = np.sqrt(sum(np.sum(g * g, dtype=g.dtype) for g in grads))
    return [g * min(np.float32(1), np.float32(clip_norm) / norm) if norm else g for g in grads], norm


@pytest.mark.parametrize("path", sorted(EXPECTATIONS.glob("*.toml")), ids=lambda path: path.stem)
def test_shipped_entries_are_complete(path: Path) -> None:
    for one in load_known(path.stem):
        assert one.reason.endswith((".", ")")), f"the reason is not a sentence: {one}"
        assert one.checked, f"reproduce it without the suite, and write the day: {one}"
        assert one.url in ("none found", "no search was made") or one.url.startswith("https://github.com/"), one
        # These causes alone would excuse any effect on the gradients, or any error.
        lax = {"negative-threshold", "threshold-accepted", "infinite-threshold-nan", "inputs-changed", "count-changed"}
        assert one.cause not in lax or "effect" in dict(one.parameters), f"the parameters must name the effect: {one}"
        assert one.cause != "raises" or "text" in dict(one.parameters), f"the parameters must name the text: {one}"
        vague = ("gradients-nan", "gradients-zeroed", "malformed")
        assert one.cause not in vague, f"this cause excuses too much; leave it out, and name rules or cases: {one}"
        for pattern in one.rules:
            is_on_mesh = find_case_on(pattern) is not None
            assert "combinations" in pattern or is_on_mesh or any(matches_any((pattern,), *names) for names in CASES), (
                pattern
            )


#: The meshes whose cases entries name.
MESHES = ({"shard": 2, "tensor": 2}, {"replica": 2, "expert": 2}, {"shard": 2, "expert": 2})

#: The id and the rule of each case.
CASES = [
    (case.id, case.rule)
    for case in chain(list_all_cases(), *(make_cases_on("clip_by_global_norm", mesh) for mesh in MESHES))
]


def test_table_of_the_manual_explains_every_key() -> None:
    manual = Path(__file__).parents[2].joinpath("docs", "how-to", "known-failures.md").read_text(encoding="utf-8")

    assert all(f"`{field.name}`" in manual for field in fields(KnownFailure))


@pytest.mark.thorough(sample=0)
def test_only_entries_that_say_so_depend_on_chance() -> None:
    (run,) = read_runs(Path(__file__).parents[2] / "reports" / "published" / "paddle.jsonl.gz")
    entry, other = "paddle.nn.utils.clip_grad_value_", "paddle.nn.ClipGradByValue [called]"

    assert depends_on_chance(run, (entry, "value.sparse-rows/two-of-four/float32"))
    assert not depends_on_chance(run, (other, "value.sparse-rows/two-of-four/float32"))
    assert not depends_on_chance(run, (entry, "value.bounds/max-only/float32"))
    # The entry about this entry point is about Paddle 3 only.
    pair = (
        "paddle.nn.clip.set_gradient_clip [ClipGradByGlobalNorm, static]",
        "global-norm.clip-before-update/rate-quarter/float32",
    )
    older = replace(run, header=replace(run.header, framework={**run.header.framework, "version": "2.6.2"}))
    assert depends_on_chance(run, pair)
    assert not depends_on_chance(older, pair)


@pytest.mark.parametrize("adapter", ["no-such-framework", "../../etc/passwd", "a b\0"])
def test_record_of_an_unknown_adapter_depends_on_no_chance(adapter: str) -> None:
    run = run_known(clip)
    foreign = replace(run, header=replace(run.header, adapter=adapter))

    assert not depends_on_chance(foreign, run.cells[0].pair)
