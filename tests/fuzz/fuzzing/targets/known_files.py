"""Fuzz the TOML files of an adapter: known failures and claims, and the file that a record proposes."""

from __future__ import annotations

import functools
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from hypothesis import strategies as st

from gradclip_adapters.wire import decode_subject
from gradclip_conformance.cli import gradclip
from gradclip_conformance.judge.model import Answer, Description, Replied
from gradclip_conformance.known.claims import load_claims
from gradclip_conformance.known.known_causes import find_known_faults, load_known_causes, read_known_causes
from gradclip_conformance.known.pins import find_pin_faults, load_deviations, read_deviations
from gradclip_conformance.known.propose import CannotPin, propose_pins
from gradclip_conformance.run.plan import Selection
from gradclip_reports.records import RecordError, Run, read_runs

from ..connections import Connected, check_run
from ..documents import Halving, read_lines
from ..drawings import check_text
from ..guards import enter_folder
from ..mutation import change, draw_changes
from ..target import Target, require
from ..toml import write_toml
from .records import write_record

ADAPTER = "my_adapter.py"
CASES = ("norm.scaled-above/three-four-five/float32", "norm.none-stays-none/*/float32", "norm.identity-below/*/float32")
PIN = {
    "subjects": ["my subject"],
    "cases": ["norm.scaled-above/*", "norm.none-stays-none/*"],
    "version": ">=1.0,<2",
    "platform": "*",
    "device": "cpu",
    "mode": "*",
    "until": "2999-01-31",
    "observed": "formula",
    "formula": {"kind": "coefficient", "eps": 1e-6},
    "reason": "halves",
    "url": "none found, 2026-11-22",
    "first_seen": "1.0",
    "last_seen": "1.0",
}
KNOWN = {
    "cause": "multiple",
    "parameters": {"number": 0.5, "effect": ["zeros", "n*"]},
    "subjects": ["my subject"],
    "rules": ["norm.scaled-above"],
    "versions": ">=1.0,<2",
    "platforms": "*",
    "devices": "cuda*",
    "reason": "halves",
    "url": "none found",
    "checked": "2026-11-23",
}
PARTS = {
    "cause": "arithmetic-limits",
    "url": "none found",
    "checked": "2026-11-23",
    "parts": [
        {"cause": "squares-overflow", "parameters": {"effect": "zeros"}, "subjects": ["my *"], "reason": "overflows"},
        {"cause": "long-sum", "subjects": ["my subject"], "rules": ["norm.*"], "reason": "", "versions": ">=1.0"},
    ],
}
CLAIM = {
    "subject": "my subject",
    "rules": ["norm.scaled-above", "norm.*"],
    "formula": {"kind": "coefficient", "eps": 1e-6},
    "predicts": "all-zero",
    "phrase": "is halved",
    "where": "its documentation",
    "docstring": "math.sqrt",
    "docstring_sha256": "00",
}
FILES = {
    "expectations": {
        "deviation": [PIN, {name: value for name, value in {**PIN, "observed": "values"}.items() if name != "formula"}],
        "known": [KNOWN, {**KNOWN, "cause": "squares-overflow", "checked": "", "reason": ""}, PARTS],
    },
    "claims": {"claim": [CLAIM, {"subject": "*", "predicts": "raises:ValueError", "phrase": "no", "where": "there"}]},
}
RECORD = read_lines(ADAPTER)[:-1]

EXAMPLES = st.one_of(
    *(
        st.fixed_dictionaries({"file": st.just(kind), "changes": draw_changes(document), "at": st.integers(-1, 300)})
        for kind, document in FILES.items()
    ),
    st.fixed_dictionaries({"file": st.just("proposed"), "changes": draw_changes(RECORD, times=(2, 20, 5_000))}),
)


def check(example: Any) -> None:
    """Use a changed file in a run, or propose a file from a changed record and read the proposal."""
    with enter_folder() as place:
        if example["file"] == "proposed":
            _check_proposal(place, example["changes"])
        else:
            _check_file(place, example)


def _check_file(place: Path, example: Any) -> None:
    kind = example["file"]
    text = write_toml(change(FILES[kind], example["changes"]))
    data = text.encode("utf-8", "surrogatepass")
    if 0 <= example["at"] < len(data):
        data = data[: example["at"]] + b"\xff\x00" + data[example["at"] :]
    (place / f"my_adapter.{kind}.toml").write_bytes(data)
    adapter = str(place / ADAPTER)
    load_claims.cache_clear()
    read_deviations.cache_clear()
    try:
        claims, deviations, known = load_claims(adapter), load_deviations(adapter), load_known_causes(adapter)
        connection = _make_connection()
        run = check_run(connection, adapter, Selection(rules=CASES))
    except ValueError as error:
        _check_refusal(str(error))
        done = CliRunner().invoke(gradclip, ["check", adapter, "--rule", CASES[0]])
        require(done.exit_code == 2 and isinstance(done.exception, SystemExit), f"`gradclip check`: {done.exception!r}")
        return
    del claims
    for cell in run.cells:
        require(cell.status != "error", f"an error of the suite's own: {cell.detail[-1500:]}")
    for fault in (*find_pin_faults(run, deviations), *find_known_faults(run, known)):
        check_text(fault, "a fault of a pin")
    _check_proposed(run, propose_pins(run), len(deviations) + len(known))


def _check_refusal(text: str) -> None:
    require("my_adapter." in text, f"a refusal does not name the file: {text[:500]}")
    check_text(text, "a refusal")
    require(len(text) < 20_000, f"a refusal of {len(text)} characters")


@functools.cache
def _make_connection() -> Connected:
    made = Halving([("my subject", "clip_by_norm")])

    def answer(call: Any) -> Answer:
        return Replied(made.call(call))

    environment = {"python": "3.11", "platform": "here", "device": "cpu"}
    return Connected(Description("fuzzed", "1.0", environment, tuple(made.subjects())), answer)


def _check_proposal(place: Path, wanted: list[Any]) -> None:
    path = place / "record.jsonl"
    path.write_text(write_record(RECORD, wanted), encoding="utf-8")
    try:
        (run,) = read_runs(path)
        tuple(map(decode_subject, run.header.subjects))
    except (RecordError, ValueError):
        return
    done = CliRunner().invoke(gradclip, ["expectations", "update", str(path)])
    require(isinstance(done.exception, SystemExit | None), f"`gradclip expectations update` raised {done.exception!r}")
    check_text(done.stderr, "standard error")
    if run.cells:
        try:
            text = propose_pins(run, ())
        except CannotPin as reason:
            require(str(reason), "pins are refused without a reason")
            return
        _check_proposed(run, text, 0)


def _check_proposed(run: Run, text: str, known: int) -> None:
    """Require that a proposal can be read, and that what it adds is about subjects and cases of the run."""
    pins: Sequence[Any] = tomllib.loads(text).get("deviation", [])
    require(len(read_deviations(text, "proposal")) == len(pins), "pins are lost")
    causes: Sequence[Any] = tomllib.loads(text).get("known", [])
    require(len(read_known_causes(text, "proposal")) == len(causes), "known causes are lost")
    if known:
        return
    names, cases = {cell.subject for cell in run.cells}, [cell.case for cell in run.cells]
    for one in causes:
        require(set(one["subjects"]) <= names, f"a known cause of subjects that the record does not have: {one}")
    for pin in pins:
        require(set(pin["subjects"]) <= names, f"a pin of subjects that the record does not have: {pin}")
        for pattern in pin["cases"]:
            start = pattern.split("*")[0]
            require(start and any(case.startswith(start) for case in cases), f"a pin of other cases: {pin}")


TARGET = Target(EXAMPLES, check)
