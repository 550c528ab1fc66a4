"""Check that an entry for a known cause excuses the answers that the cause reproduces, and no others."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradclip_adapters.contract import Call, Subject
from gradclip_adapters.plain import PlainFunction
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.causes.findings import list_asked_rules
from gradclip_conformance.causes.model import Evidence
from gradclip_conformance.judge.model import Answer, Description, Died
from gradclip_conformance.known.known_causes import (
    KnownCause,
    find_known_faults,
    load_known,
    load_known_entries,
    read_known_causes,
    read_known_entries,
)
from gradclip_conformance.known.pins import EXPECTATIONS, is_version_within
from gradclip_conformance.known.propose import propose_pins
from gradclip_conformance.run.environments import read_recipes
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import Selection, plan_cells
from gradclip_conformance.run.runner import RunRequest, explain_findings, run_adapter, run_cell
from gradclip_reports.counting import count_rules
from gradclip_reports.records import Cell, Finding, Run

OVERFLOW = KnownCause(
    "squares-overflow",
    ("*",),
    "The sum of squares overflows.",
    "none found",
    "2026-11-23",
    (("effect", ("zeros",)),),
)
RULE = "global-norm.overflow-of-squares"


def clip(grads: Any, *, clip_norm: float) -> list[Any]:
    """Sum the squares in the gradients' dtype."""
    with np.errstate(all="ignore"):
        norm = np.sqrt(sum(np.sum(g * g, dtype=g.dtype) for g in grads))
        return [g * min(np.float32(1), np.float32(clip_norm) / norm) for g in grads]


def make_nan(grads: Any, *, clip_norm: float) -> list[Any]:
    """Return NaN where the squares overflow."""
    return [g * np.float32(np.nan) if not g.any() else g for g in clip(grads, clip_norm=clip_norm)]


def find_cells(
    function: Callable[..., Any], known: Sequence[KnownCause], rule: str = RULE
) -> tuple[list[Cell], list[Finding]]:
    """Return the cells of a rule in float32, and their findings."""
    connection = InProcess(PlainFunction(function, "clip_by_global_norm", dtypes=("float32",)))
    planned = plan_cells(
        connection.description.subjects, list_all_cases(), Selection(rules=(rule,), dtypes=("float32",))
    )
    evidence: list[Evidence] = []
    cells = [run_cell(connection, one, 1.0, known=known, evidence=evidence) for one in planned]
    return cells, explain_findings(evidence, list_asked_rules(cells), known)


def find_statuses(function: Callable[..., Any], known: Sequence[KnownCause], rule: str = RULE) -> set[str]:
    cells, _ = find_cells(function, known, rule)
    return {cell.status for cell in cells} - {"pass", "unsupported", "quality"}


@pytest.mark.parametrize(
    ("changes", "statuses"),
    [
        ({}, {"deviation"}),
        ({"parameters": (("effect", ("z*", "nan")),)}, {"deviation"}),
        ({"parameters": (("effect", ("nan",)),)}, {"changed"}),
        ({"parameters": (("eps", (1e-6,)),)}, {"changed"}),
        ({"cause": "squares-underflow", "parameters": ()}, {"changed"}),
        # This cause cannot break the rule, so the entry says nothing about the rule.
        ({"cause": "excluded-counted", "parameters": ()}, {"fail"}),
        ({"subjects": ("other.*",)}, {"fail"}),
        ({"rules": ("global-norm.scaled-above",)}, {"fail"}),
        ({"rules": ("global-norm.overflow-of-squares",)}, {"deviation"}),
        ({"versions": "<0"}, {"fail"}),
        ({"platforms": "no such platform"}, {"fail"}),
        ({"devices": "cuda*"}, {"fail"}),
    ],
)
def test_entry_excuses_what_its_cause_reproduces(changes: dict[str, Any], statuses: set[str]) -> None:
    assert find_statuses(clip, [replace(OVERFLOW, **changes)]) == statuses


def test_another_answer_gets_the_status_changed() -> None:
    assert find_statuses(make_nan, [OVERFLOW]) == {"changed"}
    assert find_statuses(lambda grads, *, clip_norm: [g + 1 for g in grads], [OVERFLOW]) == {"changed"}


def test_answer_that_is_right_now_passes() -> None:
    def clip_right(grads: Any, *, clip_norm: float) -> list[Any]:
        norm = float(np.sqrt(sum(float((g.astype(np.float64) ** 2).sum()) for g in grads)))
        return [(g.astype(np.float64) * min(1.0, clip_norm / norm)).astype(g.dtype) for g in grads]

    assert find_statuses(clip_right, [OVERFLOW]) == set()


def test_cells_of_one_entry_are_one_finding_with_its_reason() -> None:
    both = KnownCause(
        "raises", ("*",), "It refuses.", "none found", "2026-11-23", (("error", ("TypeError", "OSError")),)
    )

    def refuse(grads: Any, *, clip_norm: float) -> Any:
        raise (TypeError if len(grads) == 1 else OSError)("no kernel")

    cells, findings = find_cells(refuse, [both], "global-norm.scaled-above")

    assert {cell.status for cell in cells} == {"deviation"}
    (finding,) = findings
    assert (finding.reason, finding.url) == ("It refuses.", "none found")
    assert finding.parameters == {"error": "OSError | TypeError", "text": "no kernel"}
    _, (combined,) = find_cells(refuse, [], "global-norm.scaled-above")
    assert {part.parameters["error"] for part in combined.parts} == {"OSError", "TypeError"}


def test_entry_without_a_reason_is_counted() -> None:
    adapter = PlainFunction(clip, "clip_by_global_norm", dtypes=("float32",))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gradclip_conformance.run.runner.load_known", lambda adapter: (replace(OVERFLOW, reason=""),))
        run = run_once(adapter)

    assert count_rules([run]).without_reason == 1
    assert find_known_faults(run, [OVERFLOW]) == []
    (fault,) = find_known_faults(run, [replace(OVERFLOW, subjects=("*", "other.*"))])
    assert "'squares-overflow': no entry point that matches 'other.*' shows it" in fault
    assert find_known_faults(run, [replace(OVERFLOW, versions="<0", subjects=("other.*",))]) == []
    # The run was not asked these rules, or was asked them and nothing showed the cause.
    assert find_known_faults(run, [replace(OVERFLOW, subjects=("other.*",), rules=("*.combinations*",))]) == []
    assert find_known_faults(run, [replace(OVERFLOW, subjects=("other.*",), rules=("global-norm.*",))])


def run_once(adapter: PlainFunction) -> Run:
    return run_adapter(RunRequest("x", lambda: InProcess(adapter), Selection(rules=(RULE,))), io.StringIO())


class Dying:
    """A connection whose process dies in every call."""

    def __init__(self) -> None:
        self.renewed = 0
        self.description = Description("fake", "1.0", {}, (Subject("fake.clip", "clip_by_norm", ("float32",)),))

    def ask(self, call: Call, timeout: float) -> Answer:
        """Die."""
        return Died("ended by signal SIGSEGV")

    def renew(self) -> None:
        """Count the request for a new process."""
        self.renewed += 1

    def close(self) -> None:
        """Do nothing."""

    def kill(self) -> None:
        """Do nothing."""


@pytest.mark.parametrize(("cause", "status", "renewed"), [("crashes", "deviation", 2), ("hangs", "crash", 0)])
def test_known_crash_must_happen_in_a_process_of_its_own(cause: str, status: str, renewed: int) -> None:
    connection = Dying()
    (planned,) = plan_cells(
        connection.description.subjects,
        list_all_cases(),
        Selection(cases=("norm.scaled-above/three-four-five/float32",)),
    )

    cell = run_cell(connection, planned, 1.0, known=[replace(OVERFLOW, cause=cause, parameters=())])

    assert (cell.status, connection.renewed) == (status, renewed)


def test_proposal_names_causes_without_a_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = PlainFunction(clip, "clip_by_global_norm", dtypes=("float32",))
    run = run_once(adapter)

    (entry,) = read_known_causes(propose_pins(run, []), "lib.toml")

    assert (entry.cause, entry.reason, entry.url) == ("squares-overflow", "", "no search was made")
    assert entry.parameters == (("effect", ("zeros",)),)
    # With the proposed entry the failures are known, and the next proposal keeps the file, comments and all.
    text = f"# Known failures of a library.\n\n# The squares.\n\n{propose_pins(run, []).split(chr(10), 2)[2]}"
    (tmp_path / "lib.toml").write_text(text, encoding="utf-8")
    monkeypatch.setattr("gradclip_conformance.known.pins.EXPECTATIONS", tmp_path)
    request = RunRequest("lib", lambda: InProcess(adapter), Selection(rules=(RULE,)))
    again = run_adapter(request, io.StringIO())
    assert {cell.status for cell in again.cells} & {"fail", "changed", "deviation"} == {"deviation"}
    assert propose_pins(again) == text


ENTRY = """
[[known]]
cause = "squares-overflow"
parameters = { effect = ["zeros", "nan"], eps = 1e-6 }
subjects = ["*"]
reason = ""
url = "no search was made"
checked = ""
"""


def test_entry_is_read() -> None:
    (entry,) = read_known_causes(ENTRY, "lib.toml")

    assert entry.parameters == (("effect", ("zeros", "nan")), ("eps", (1e-6,)))
    assert entry.suspect.parameters == {"effect": "zeros", "eps": 1e-6}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("squares-overflow", "square-overflow", "cause: there is no cause 'square-overflow'. Did you mean"),
        ("subjects", "subject", "there is no field 'subject'. Did you mean subjects?"),
        ('reason = ""', "", "reason: this field is missing"),
        ('checked = ""', 'checked = "today"', "checked"),
        ('checked = ""', 'checked = "2026-13-01"', "month must be in 1..12"),
        ('["*"]', "[]", r"known\[0\].subjects"),
        ('checked = ""', 'checked = ""\nversions = "about 2"', "version specifier 'about 2'"),
        ("1e-6", '"x"', "could not convert string to float"),
        ("1e-6", "[]", "parameters.eps"),
    ],
)
def test_malformed_entry_names_file_entry_and_field(old: str, new: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        read_known_causes(ENTRY.replace(old, new), "lib.toml")

    assert "lib.toml" in str(raised.value)


PARTS = """
[[known]]
cause = "arithmetic-limits"
subjects = ["*"]
reason = "The squares leave the range."
url = "none found"
checked = "2026-11-23"

[[known.parts]]
cause = "squares-overflow"
parameters = { effect = "zeros" }

[[known.parts]]
cause = "squares-underflow"
subjects = ["lib.*"]
reason = "The squares of small gradients are zero."
"""


def test_parts_take_the_fields_that_they_leave_out_from_their_entry() -> None:
    ((overflow, underflow),) = read_known_entries(PARTS, "lib.toml")

    assert (overflow.cause, overflow.subjects, overflow.parameters) == ("squares-overflow", ("*",), OVERFLOW.parameters)
    assert overflow.reason == "The squares leave the range."
    assert (underflow.cause, underflow.subjects, underflow.parameters) == ("squares-underflow", ("lib.*",), ())
    assert underflow.reason == "The squares of small gradients are zero."
    assert find_statuses(clip, [overflow, underflow]) == {"deviation"}
    assert find_statuses(clip, [underflow]) == {"fail"}


def test_parts_may_have_one_cause_with_different_parameters() -> None:
    text = ENTRY.replace("squares-overflow", "raises").replace(
        'parameters = { effect = ["zeros", "nan"], eps = 1e-6 }', ""
    )
    text += '[[known.parts]]\nparameters = { text = "a" }\n[[known.parts]]\nparameters = { text = "b" }\n'

    ((first, second),) = read_known_entries(text, "lib.toml")

    assert (first.cause, second.cause) == ("raises", "raises")
    assert (first.parameters, second.parameters) == ((("text", ("a",)),), (("text", ("b",)),))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            '"squares-underflow"',
            '"raises"',
            "parts 2: cause: 'raises' is not a part of 'arithmetic-limits', which has squ",
        ),
        ('"squares-underflow"', '"underflow"', "parts 2: cause: there is no cause 'underflow'"),
        ('cause = "squares-overflow"', "", "parts 1: cause: 'arithmetic-limits' is a group of causes; name one cause"),
        ('"arithmetic-limits"', '"arithmetic-limit"', "cause: there is no cause 'arithmetic-limit'. Did you mean"),
        (
            '"arithmetic-limits"',
            '"squares-overflow"',
            "parts 2: cause: 'squares-underflow' is not a part of 'squares-ov",
        ),
        ('subjects = ["lib.*"]', 'subject = ["lib.*"]', "parts 2: there is no field 'subject'. Did you mean subjects"),
        ('subjects = ["lib.*"]', "subjects = []", r"known\[0\].parts\[1\].subjects"),
        ('subjects = ["lib.*"]', "parts = []", "parts 2: there is no field 'parts'"),
        ('url = "none found"', "", "parts 1: url: this field is missing"),
        ('cause = "arithmetic-limits"', "", "'cause' is a required property"),
        ('{ effect = "zeros" }', '{ eps = "x" }', "could not convert string to float"),
        ('{ effect = "zeros" }', "{ effect = [] }", "parameters.effect"),
    ],
)
def test_malformed_part_names_file_entry_and_field(old: str, new: str, message: str) -> None:
    with pytest.raises(ValueError, match=message) as raised:
        read_known_entries(PARTS.replace(old, new, 1), "lib.toml")

    assert "lib.toml" in str(raised.value)


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ("[]", r"known\[0\].parts"),
        ('["squares-overflow"]', r"known\[0\].parts\[0\]"),
        ('"squares-overflow"', r"known\[0\].parts"),
    ],
)
def test_parts_must_be_tables(parts: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        read_known_entries(f"{PARTS.partition('[[known.parts]]')[0]}parts = {parts}\n", "lib.toml")


def test_group_without_parts_is_refused() -> None:
    with pytest.raises(ValueError, match=r"lib\.toml, .* 1: cause: 'arithmetic-limits' is a group of causes; name one"):
        read_known_entries(PARTS.partition("[[known.parts]]")[0], "lib.toml")


def clip_in_dtype(grads: Any, *, clip_norm: float) -> Any:
    """Sum the squares in the gradients' dtype, and return the norm, too."""
    with np.errstate(all="ignore"):
        norm = np.sqrt(sum(np.sum(g * g, dtype=g.dtype) for g in grads))
    return [g * min(np.float32(1), np.float32(clip_norm) / norm) if norm else g for g in grads], norm


def test_proposal_has_an_entry_with_parts_for_a_combined_finding(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    adapter = PlainFunction(clip_in_dtype, "clip_by_global_norm", dtypes=("float32",))
    monkeypatch.setattr("gradclip_conformance.known.pins.EXPECTATIONS", tmp_path)
    request = RunRequest("lib", lambda: InProcess(adapter), Selection(rules=(RULE, "global-norm.underflow-of-squares")))
    with np.errstate(all="ignore"):
        run = run_adapter(request, io.StringIO())
    text = propose_pins(run)

    (entry,) = read_known_entries(text, "lib.toml")

    assert 'cause = "arithmetic-limits"' in text
    assert {one.cause for one in entry} == {"squares-overflow", "squares-underflow"}
    (tmp_path / "lib.toml").write_text(text, encoding="utf-8")
    with np.errstate(all="ignore"):
        again = run_adapter(request, io.StringIO())
    assert {cell.status for cell in again.cells} & {"fail", "changed", "deviation"} == {"deviation"}
    assert propose_pins(again) == text
    # A comment above a part, and parts without blank lines, are kept, too.
    dense = text.replace("\n\n[[known.parts]]", "\n# A part.\n[[known.parts]]")
    (tmp_path / "lib.toml").write_text(dense, encoding="utf-8")
    assert propose_pins(again) == dense


def test_proposal_removes_what_no_longer_shows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    adapter = PlainFunction(clip, "clip_by_global_norm", dtypes=("float32",))
    monkeypatch.setattr("gradclip_conformance.known.pins.EXPECTATIONS", tmp_path)
    (tmp_path / "lib.toml").write_text(PARTS.replace('["*"]', '["*", "other.*"]'), encoding="utf-8")
    run = run_adapter(RunRequest("lib", lambda: InProcess(adapter), Selection(rules=(RULE,))), io.StringIO())
    text = propose_pins(run)

    ((left,),) = read_known_entries(text, "lib.toml")

    assert (left.cause, left.subjects, left.reason) == ("squares-overflow", ("*",), "The squares leave the range.")
    assert "# Removed from 'squares-overflow': no entry point that matches 'other.*' shows it." in text
    assert "# Removed from 'squares-underflow': no entry point that matches 'lib.*' shows it." in text


@pytest.mark.parametrize("path", sorted(EXPECTATIONS.glob("*.toml")), ids=lambda path: path.stem)
def test_shipped_entries_are_complete(path: Path) -> None:
    entries = [one for one in load_known(path.stem) if isinstance(one, KnownCause)]
    for one in entries:
        assert one.reason.endswith((".", ")")), one
        assert one.checked, one
        assert one.url == "none found" or one.url.startswith("https://github.com/"), one
        # These causes alone would excuse any effect on the gradients, or any error. So their entries must name the
        # effect, or the text of the error.
        lax = {"negative-threshold", "threshold-accepted", "infinite-threshold-nan", "inputs-changed", "count-changed"}
        assert one.cause not in lax or "effect" in dict(one.parameters), one
        assert one.cause != "raises" or "text" in dict(one.parameters), one
        assert one.cause not in ("gradients-nan", "gradients-zeroed", "malformed"), one
    version = read_recipes()[path.stem].version
    present = [
        entry
        for entry in load_known_entries(path.stem)
        if any(is_version_within(version, one.versions) for one in entry)
    ]
    assert len(present) == COUNTS[path.stem]


#: How many entries for known causes each framework has, without those about older versions only. More than 12 would be
#: hard to survey.
COUNTS = {
    "accelerate": 10,
    "chainer": 3,
    "deepspeed": 16,
    "fabric": 9,
    "fairscale": 5,
    "fastai": 5,
    "jax": 6,
    "jittor": 6,
    "keras-jax": 6,
    "keras-tensorflow": 10,
    "keras-torch": 10,
    "megengine": 9,
    "mindspore": 25,
    "mlx": 5,
    "mmengine": 5,
    "mxnet": 6,
    "nnabla": 8,
    "onnxruntime-training": 9,
    "opacus": 6,
    "optax": 26,
    "paddle-fluid": 14,
    "paddle": 15,
    "skorch": 5,
    "tensorflow-js": 1,
    "tensorflow": 11,
    "thinc": 6,
    "timm": 12,
    "torch": 10,
    "torchtitan": 7,
    "transformers": 3,
}


def test_example_of_the_manual_is_valid() -> None:
    manual = Path(__file__).parents[2].joinpath("docs", "how-to", "known-failures.md").read_text(encoding="utf-8")
    examples = re.findall(r"```toml\n(.*?)```", manual, re.DOTALL)

    single, combined = read_known_entries("\n".join(examples), "docs/how-to/known-failures.md")

    assert [one.cause for one in single] == ["squares-overflow"]
    assert [one.cause for one in combined] == ["squares-overflow", "squares-underflow"]
    assert {one.url for one in combined} == {"none found"}
    # The table explains every key.
    assert all(f"`{name}`" in manual for name in ("parts", *(field.name for field in fields(KnownCause))))
