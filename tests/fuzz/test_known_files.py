"""Fuzz the TOML files of an adapter: known failures and claims, and the file that a record proposes."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
import tomlkit
from click.testing import CliRunner
from fuzzing.changes import Change, apply_changes, draw_changes
from fuzzing.documents import Halving, check_run, draw_renames, read_record, write_record
from fuzzing.drawings import check_reason, check_text
from fuzzing.guards import FUZZ, isolate
from fuzzing.texts import draw_mostly, draw_texts
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from gradclip_adapters.wire import decode_entry_point
from gradclip_conformance.cli import gradclip
from gradclip_conformance.known.claims import load_claims
from gradclip_conformance.known.failures import load_known, read_known
from gradclip_conformance.known.faults import find_known_faults
from gradclip_conformance.known.propose import CannotPropose, propose_known
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import Selection
from gradclip_reports.records import RecordError, Run, read_runs

ADAPTER = "my_adapter.py"
CASES = ("norm.scaled-above/three-four-five/float32", "norm.none-stays-none/*/float32", "norm.identity-below/*/float32")
#: Members of every entry.
ENTRY = {"subjects": ["my entry point"], "versions": ">=1.0,<2", "reason": "halves", "url": "none found"}
FILES: dict[str, Any] = {
    "expectations": {
        "known": [
            {"cause": "multiple", "parameters": {"number": 0.5, "effect": ["zeros", "n*"]}, "checked": "2026-11-23"},
            {"cause": "squares-overflow", "rules": ["norm.scaled-above"], "devices": "cuda*", "checked": ""},
            {"rules": ["norm.scaled-above/*", "norm.none-stays-none/*"], "by_chance": True, "checked": ""},
        ]
    },
    "claims": {
        "claim": [
            {"subject": "my entry point", "rules": ["norm.scaled-above", "norm.*"], "docstring": "math.sqrt"},
            {"subject": "*", "predicts": "raises:ValueError", "phrase": "no", "where": "there"},
        ]
    },
}
for _entry in FILES["expectations"]["known"]:
    _entry.update(ENTRY)
FILES["claims"]["claim"][0].update(
    formula={"kind": "coefficient", "eps": 1e-6}, phrase="is halved", where="there", docstring_sha256="00"
)
#: How often a change repeats a list or a text. tomlkit takes minutes to write an array of ten thousand elements.
FEW = (2, 10)
HALVING = Halving([("my entry point", "clip_by_norm")])
RECORD = read_record(ADAPTER)


def write_toml(document: Any) -> str:
    """Return the text of a file. TOML has no null, and no document but a table: other changes of it are left out."""
    try:
        return tomlkit.dumps(document)
    except (TypeError, ValueError, AttributeError):
        assume(False)
        raise


def draw_faults() -> SearchStrategy[tuple[int, bytes] | None]:
    texts = draw_texts().map(lambda text: text.encode("utf-8", "surrogatepass"))
    return draw_mostly(st.none(), st.tuples(st.integers(0, 300), texts | st.just(b"\xff\x00")))


@pytest.mark.thorough(sample=0)
@FUZZ
@given(
    st.sampled_from(sorted(FILES)).flatmap(lambda kind: st.tuples(st.just(kind), draw_changes(FILES[kind], times=FEW))),
    draw_faults(),
)
@example(("claims", []), (0, b"\xff\x00")).via("a file that is not UTF-8 was refused without its name")
@example(("expectations", []), (0, b"\xff\x00")).via("a file that is not UTF-8 was refused without its name")
@example(("expectations", [(("known",), "set", [])]), None).via("TOMLDecodeError: cannot mutate immutable namespace")
@example(("expectations", [(("known",), "set", "")]), None).via("a text was taken for no known failures")
@example(("expectations", [(("known", 0, "subjects"), "set", "*")]), None).via("letters were taken for entry points")
@example(("expectations", [(("known", 0, "parameters", "number"), "set", "2*")]), None).via(
    "a pattern for a number was an error of every cell"
)
@example(
    ("expectations", [(("known", 0, "subjects", 0), "set", " "), (("known", 0, "rules", 0), "set", "\U00018cd6")]), None
).via("a fault of an entry showed a character that nobody has assigned")
def test_file_is_refused_by_name_or_used(drawn: tuple[str, list[Change]], fault: tuple[int, bytes] | None) -> None:
    kind, changes = drawn
    data = write_toml(apply_changes(FILES[kind], changes)).encode("utf-8", "surrogatepass")
    if fault is not None:
        data = data[: fault[0]] + fault[1] + data[fault[0] :]
    with isolate() as folder:
        (folder / f"my_adapter.{kind}.toml").write_bytes(data)
        adapter = str(folder / ADAPTER)
        load_claims.cache_clear()
        try:
            load_claims(adapter)
            known = load_known(adapter)
        except ValueError as error:
            check_refusal(str(error), adapter)
            return
        run = check_run(InProcess(HALVING), adapter, Selection(rules=CASES))
        assert not [cell.detail for cell in run.cells if cell.status == "error"]
        for _, fault_of_entry in find_known_faults(run, known):
            check_text(fault_of_entry)
        path = folder / "my_adapter.expectations.toml"
        check_proposal(run, path.read_text("utf-8") if known else "", is_new=not known)


def check_refusal(text: str, adapter: str) -> None:
    assert "my_adapter." in text
    check_reason(text)
    check_text(text)
    done = CliRunner().invoke(gradclip, ["check", adapter, "--rule", CASES[0]])
    assert isinstance(done.exception, SystemExit)
    assert done.exit_code == 2


def check_proposal(run: Run, text: str, *, is_new: bool) -> None:
    """Require that a proposal can be read, and that a new one is about entry points and cases of the run."""
    proposed = propose_known(run, text)
    entries = tomllib.loads(proposed).get("known", [])
    assert len(read_known(proposed, "proposal")) == len(entries)
    cases = {cell.case for cell in run.cells}
    for entry in entries if is_new else ():
        # An entry would read such a name of a record as a pattern.
        assert not [name for name in (*entry["subjects"], *entry.get("rules", ())) if "*" in name]
        assert set(entry["subjects"]) <= {cell.subject for cell in run.cells}
        assert set(entry.get("rules", ())) <= cases | {case.partition("/")[0] for case in cases}


@pytest.mark.thorough(sample=0)
@FUZZ
@given(draw_changes(RECORD, times=(2, 20, 5_000)) | draw_renames(RECORD, 3))
@example([((0, "adapter"), "repeat", 20)]).via("OSError: File name too long")
@example([((1, "case"), "set", " ")]).via("a case whose name is a space was refused")
@example([((1, "subject"), "rename", "*")]).via("an entry of an entry point `*` would excuse all entry points")
def test_record_proposes_a_file_that_can_be_read(changes: list[Change]) -> None:
    with isolate() as folder:
        path = folder / "record.jsonl"
        path.write_text(write_record(RECORD, changes), encoding="utf-8")
        try:
            (run,) = read_runs(path)
            tuple(map(decode_entry_point, run.header.subjects))
        except (RecordError, ValueError):
            return
        done = CliRunner().invoke(gradclip, ["expectations", "update", str(path)])
        assert isinstance(done.exception, SystemExit | None)
        check_text(done.stderr)
        try:
            check_proposal(run, "", is_new=True)
        except CannotPropose as reason:
            check_reason(str(reason))
