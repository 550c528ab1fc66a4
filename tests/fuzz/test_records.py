"""Fuzz records. Each is refused in one sentence, or drawn in every format and as a site, and each drawing is valid.

In the scripts made from records, only our own functions may give code. A record may give only constants.
"""

from __future__ import annotations

import ast
import contextlib
from pathlib import Path

import pytest
from click.testing import CliRunner
from fuzzing.changes import Change, draw_changes
from fuzzing.changes import Path as Steps
from fuzzing.documents import RECORDS, draw_renames, read_record, write_record
from fuzzing.drawings import check_differences, check_drawings, check_reason, check_site, check_text, parse_strictly
from fuzzing.guards import FUZZ, isolate
from fuzzing.texts import CALLED, PAYLOAD, draw_attacks, draw_mostly
from hypothesis import example, given
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from gradclip_conformance.cli import gradclip
from gradclip_conformance.repro.script import NoScript, write_script
from gradclip_reports.records import RecordError, read_partial, read_runs
from gradclip_reports.render import FORMATS

DOCUMENTS = {name: read_record(name) for name in RECORDS}
for _lines in DOCUMENTS.values():
    # Reports show failed cells in full.
    for _number, _line in enumerate(_lines):
        if _line.get("status") == "fail":
            _line.update(quote=f"as documented {_number}", url=f"https://there/{_number}")
#: Faults outside JSON: bytes that are not text, a cut line, blank lines.
LINES = (b"", b"\xff\xfe", b"\n\n", b"\xef\xbb\xbf", b"\x00", b'{"record":"cell"', b"\x1b[2J\n", b"[]\n", b"1\n")


@pytest.mark.thorough(sample=0)
@FUZZ
@given(
    st.sampled_from(sorted(RECORDS)).flatmap(
        lambda name: st.tuples(st.just(name), draw_changes(DOCUMENTS[name]) | draw_renames(DOCUMENTS[name], 12))
    ),
    draw_mostly(st.just(True), st.just(False)),
    draw_mostly(st.none(), st.tuples(st.integers(0, 20), st.sampled_from(LINES))),
    st.sampled_from(FORMATS),
)
@example(
    (
        "my_module:clip",
        [
            ((2, "expected", "gradients", 0, "values", 0), "repeat", 200_000),
            ((2, "expected", "gradients", 0, "values", 0), "repeat", 200_000),
            ((), "repeat", 2),
        ],
    ),
    True,
    None,
    "terminal",
).via("needed 1,807 MiB more than all examples before it")
@example(("my_adapter.py", [((0, "subjects", 0, "name"), "set", "another")]), True, None, "terminal").via(
    "a part of a run whose header lists other entry points was drawn"
)
@example(("my_module:clip", [((9, "cells", "my_module:clip", 0), "repeat", 5000)]), True, None, "terminal").via(
    "the refusal was as long as the name of the cell"
)
def test_record_is_refused_or_drawn(
    drawn: tuple[str, list[Change]], agrees: bool, fault: tuple[int, bytes] | None, form: str
) -> None:
    name, changes = drawn
    lines = write_record(DOCUMENTS[name], changes, agrees=agrees).encode().split(b"\n")
    if fault is not None:
        lines.insert(*fault)
    with isolate() as folder:
        path, unchanged = folder / "record.jsonl", folder / "unchanged.jsonl"
        path.write_bytes(b"\n".join(lines))
        unchanged.write_text(write_record(DOCUMENTS[name]), encoding="utf-8")
        refused = find_refusal(path, unchanged)
        shown = CliRunner().invoke(gradclip, ["summary", str(path), "--format", form])
    assert isinstance(shown.exception, SystemExit | None)
    check_text(shown.stderr)
    check_text(shown.stdout)
    assert shown.exit_code in ((3,) if refused else (0, 1, 3))
    if form == "json" and not refused:
        parse_strictly(shown.stdout)


def find_refusal(path: Path, unchanged: Path) -> str:
    """Return why a record is refused. The text is empty if it is read, drawn, and compared with an unchanged one."""
    with contextlib.suppress(RecordError):
        check_drawings([read_partial(path)])
    try:
        runs = read_runs(path, allow_incomplete=True)
    except RecordError as error:
        check_reason(str(error))
        check_text(str(error))
        return str(error)
    check_drawings(runs)
    check_differences(runs[0], *read_runs(unchanged))
    try:
        whole = read_runs(path)
    except RecordError as error:
        return str(error)
    check_site(whole, path.parent / "site")
    return ""


# Scripts.

#: A header and one cell of each case.
PAIRS = {
    (name, place): [header, cell]
    for name in RECORDS
    for header, *lines in [read_record(name)]
    for place, cell in enumerate(line for line in lines if line["record"] == "cell")
}

#: The texts of a record that a script shows, or by which it finds functions.
WRITTEN: tuple[Steps, ...] = (
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
