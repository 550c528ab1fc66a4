"""Fuzz the scripts made from records. Only our own functions may give code. A record may give only constants."""

from __future__ import annotations

import ast

from click.testing import CliRunner
from fuzzing.changes import Change, Path, draw_changes
from fuzzing.documents import RECORDS, read_record, write_record
from fuzzing.drawings import check_reason, check_text
from fuzzing.guards import FUZZ, isolate
from fuzzing.texts import CALLED, PAYLOAD, draw_attacks
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from gradclip_conformance.cli import gradclip
from gradclip_conformance.repro.script import NoScript, write_script
from gradclip_reports.records import RecordError, read_runs

#: A header and one cell of each case.
PAIRS = {
    (name, place): [header, cell]
    for name in RECORDS
    for header, *lines in [read_record(name)]
    for place, cell in enumerate(line for line in lines if line["record"] == "cell")
}

#: The texts of a record that a script shows, or by which it finds functions.
WRITTEN: tuple[Path, ...] = (
    *((0, "framework", "name"), (0, "framework", "version"), (0, "adapter"), (0, "subjects", 0, "name")),
    *((1, "case"), (1, "rule"), (1, "expected", "gradients", 0, "values", 0)),
)


def draw_attack() -> SearchStrategy[Change]:
    """Draw an attack in the place of a text that reaches the script, wherever this text occurs."""
    return st.tuples(st.sampled_from(WRITTEN), st.just("rename"), draw_attacks())


def list_injected(text: str) -> set[str]:
    """Return the functions of attacks that a script names in its code, not in a constant."""
    nodes = [*ast.walk(ast.parse(text))]
    names = {node.id for node in nodes if isinstance(node, ast.Name)}
    return CALLED & (names | {node.attr for node in nodes if isinstance(node, ast.Attribute)})


@FUZZ
@given(
    # Few changes at once, because a refused record tests nothing.
    st.sampled_from(sorted(PAIRS)).flatmap(
        lambda pair: st.tuples(
            st.just(pair), draw_changes(PAIRS[pair], most=2, times=(2, 20, 5_000)) | st.tuples(draw_attack()).map(list)
        )
    ),
    st.booleans(),
)
@example((("torch", 0), [((0, "command", 1), "rename", "x:y")]), False).via("the adapter became a function")
@example((("my_module:clip", 3), [((0, "subjects", 0, "features"), "set", [])]), False).via("no features")
@example((("torch", 1), [((1, "expected", "gradients"), "set", "")]), False).via("IndexError")
@example((("torch", 6), [((1, "breaks"), "repeat", 5000)]), False).via("a rule of 60,000 characters in a refusal")
@example((("torch", 16), [((1, "expected", "gradients", 0, "dtype"), "repeat", 5000)]), False).via("so long a dtype")
@example(
    (
        ("torch", 1),
        [
            ((1, "expected", "gradients", 0, "shape"), "set", [1]),
            ((1, "expected", "gradients", 0, "values"), "set", ["0x1p0"]),
        ],
    ),
    False,
).via("elements were to be compared with others")
def test_script_has_no_code_of_the_record(drawn: tuple[tuple[str, int], list[Change]], by_command: bool) -> None:
    pair, changes = drawn
    with isolate() as folder:
        path = folder / "record.jsonl"
        path.write_bytes(write_record(PAIRS[pair], changes).encode())
        try:
            (run,) = read_runs(path)
            cell = run.cells[0]
        except (RecordError, ValueError, IndexError):
            return
        if by_command:
            done = CliRunner().invoke(gradclip, ["repro", str(path), "-o", "script.py", "--", cell.case])
            assert isinstance(done.exception, SystemExit | None)
            assert done.exit_code in (0, 2, 3)
            check_text(done.stderr)
        try:
            text = write_script(run.header, cell)
        except NoScript as reason:
            check_reason(str(reason))
            return
    assert not list_injected(text), text[:1500]
    assert all(line.isprintable() for line in text.splitlines())


def test_code_of_attacks_is_found() -> None:
    assert list_injected(f"'open'\nx = {PAYLOAD}") == {"open"}
