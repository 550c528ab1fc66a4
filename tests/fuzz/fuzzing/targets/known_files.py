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
from gradclip_conformance.known.failures import load_known, read_known
from gradclip_conformance.known.faults import find_known_faults
from gradclip_conformance.known.propose import CannotPropose, propose_known
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
KNOWN = {
    "cause": "multiple",
    "parameters": {"number": 0.5, "effect": ["zeros", "n*"]},
    "subjects": ["my subject"],
    "rules": ["norm.scaled-above"],
    "versions": ">=1.0,<2",
    "devices": "cuda*",
    "reason": "halves",
    "url": "none found",
    "checked": "2026-11-23",
}
FAILING = {
    "subjects": ["my subject"],
    "rules": ["norm.scaled-above/*", "norm.none-stays-none/*"],
    "versions": ">=1.0,<2",
    "devices": "cpu",
    "by_chance": True,
    "reason": "halves",
    "url": "none found",
    "checked": "",
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
        "known": [KNOWN, {**KNOWN, "cause": "squares-overflow", "checked": "", "reason": ""}, FAILING],
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
    try:
        claims, known = load_claims(adapter), load_known(adapter)
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
    for _, fault in find_known_faults(run, known):
        check_text(fault, "a fault of an entry")
    path = place / "my_adapter.expectations.toml"
    _check_proposed(run, propose_known(run, path.read_text("utf-8") if known else ""), len(known))


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
            text = propose_known(run, "")
        except CannotPropose as reason:
            require(str(reason), "a proposal is refused without a reason")
            return
        _check_proposed(run, text, 0)


def _check_proposed(run: Run, text: str, known: int) -> None:
    """Require that a proposal can be read, and that what it adds is about subjects and cases of the run."""
    entries: Sequence[Any] = tomllib.loads(text).get("known", [])
    require(len(read_known(text, "proposal")) == len(entries), "entries are lost")
    if known:
        return
    names, cases = {cell.subject for cell in run.cells}, {cell.case for cell in run.cells}
    rules = {cell.partition("/")[0] for cell in cases}
    for entry in entries:
        require(set(entry["subjects"]) <= names, f"an entry for subjects that the record does not have: {entry}")
        require(
            set(entry.get("rules", ())) <= cases | rules, f"an entry for cases that the record does not have: {entry}"
        )


TARGET = Target(EXAMPLES, check)
