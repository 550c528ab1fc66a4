"""Fuzz records. Each is refused in one sentence, or drawn in every format and as a site, and each drawing is valid."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from click.testing import CliRunner
from fuzzing.changes import Change, draw_changes
from fuzzing.documents import RECORDS, draw_renames, read_record, write_record
from fuzzing.drawings import check_differences, check_drawings, check_reason, check_text, parse_strictly
from fuzzing.guards import FUZZ, isolate
from fuzzing.sites import check_site
from fuzzing.texts import draw_mostly
from hypothesis import example, given
from hypothesis import strategies as st

from gradclip_conformance.cli import gradclip
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
    "a part of a run whose header lists other subjects was drawn"
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
