"""Fuzz records. Each is refused in one sentence, or drawn in every format and as a site, and each drawing is valid."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from gradclip_conformance.cli import gradclip
from gradclip_reports.records import RecordError, read_partial, read_runs
from gradclip_reports.render import FORMATS

from ..documents import NAMES_OF, add_footer, read_lines
from ..drawings import check_differences, check_drawings, check_text, parse_strictly
from ..guards import enter_folder
from ..mutation import change, draw_named, list_paths, write_text
from ..sites import check_site
from ..target import Target, require
from ..texts import draw_attacks

DOCUMENTS = {name: read_lines(name, findings=True)[:-1] for name in NAMES_OF}
for _, *_cells in DOCUMENTS.values():
    # Reports show failed cells in full.
    for _number, _cell in enumerate(cell for cell in _cells if cell.get("status") == "fail"):
        _cell.update(quote=f"as documented {_number}", url=f"https://there/{_number}")
#: The members of header, cell and finding whose texts are shown to people.
_HEADER = ("adapter", "framework", "suite", "environment")
_CELL = ("subject", "rule", "case", "theme", "detail", "expected", "observed", "input", "quote", "url")
_FINDING = ("cause", "title", "question", "why", "parameters", "example", "quote", "reason", "url")
_SHOWN = {"header": _HEADER, "cell": _CELL, "finding": _FINDING}
#: Faults outside JSON: bytes that are not text, a cut line, blank lines.
BYTES = (b"", b"\xff\xfe", b"\n\n", b"\xef\xbb\xbf", b"\x00", b'{"record":"cell"', b"\x1b[2J\n", b"[]\n", b"1\n")


def _find_shown_paths(name: str) -> dict[tuple[str, str], list[list[Any]]]:
    """Return the paths of the texts that reports show, by the kind of line and its member."""
    by_member: dict[tuple[str, str], list[list[Any]]] = {}
    for path in list_paths(DOCUMENTS[name]):
        number, *rest = path or [0]
        kind = DOCUMENTS[name][number]["record"]
        if rest and rest[0] in _SHOWN[kind] and isinstance(_find_at(DOCUMENTS[name], path), str):
            by_member.setdefault((kind, rest[0]), []).append(path)
    return by_member


def _draw_shown_texts(name: str) -> SearchStrategy[Any]:
    """Draw attacks that replace texts which reports show, wherever these texts occur."""
    by_member = _find_shown_paths(name)
    return st.fixed_dictionaries(
        {},
        optional={
            "/".join(map(str, member)): st.tuples(_draw_one(paths), st.just("everywhere"), draw_attacks()).map(list)
            for member, paths in by_member.items()
        },
    ).map(lambda wanted: [name, list(wanted.values())])


def _draw_one(paths: list[list[Any]]) -> SearchStrategy[Any]:
    """Draw one of many paths. Hypothesis prints the list that it samples from, which is slow for a long list."""
    return st.integers(0, len(paths) - 1).map(lambda number: paths[number])


def _find_at(document: Any, path: list[Any]) -> Any:
    for step in path:
        document = document[step]
    return document


EXAMPLES = st.fixed_dictionaries(
    {
        "document": draw_named(DOCUMENTS) | st.sampled_from(sorted(DOCUMENTS)).flatmap(_draw_shown_texts),
        #: Whether the footer is made to agree with the changed cells.
        "agrees": st.sampled_from((True, True, True, False)),
        "bytes": st.sampled_from((*(-1,) * 4 * len(BYTES), *range(len(BYTES)))),
        "at": st.integers(0, 20),
        "format": st.sampled_from(FORMATS),
    }
)


def write_record(document: list[Any], wanted: list[Any], *, agrees: bool = True) -> str:
    """Return the text of a header, cells and a footer. `agrees` says whether the footer agrees with changed cells."""
    lines = change(document, wanted)
    if not isinstance(lines, list) or not lines:
        return write_text(lines)
    footer = add_footer(lines if agrees else document)[-1]
    return "\n".join(map(write_text, [*lines, footer])) + "\n"


def check(example: Any) -> None:
    """Read and draw a record, by the functions and by the command."""
    name, wanted = example["document"]
    text = write_record(DOCUMENTS[name], wanted, agrees=example["agrees"]).encode()
    if example["bytes"] >= 0:
        lines = text.split(b"\n")
        lines.insert(min(example["at"], len(lines)), BYTES[example["bytes"]])
        text = b"\n".join(lines)
    with enter_folder() as place:
        path = place / "record.jsonl"
        path.write_bytes(text)
        refused = _find_refusal(path, place / "unchanged.jsonl", name)
        options = ["--format", example["format"]]
        shown = CliRunner().invoke(gradclip, ["summary", str(path), *options])
    require(isinstance(shown.exception, SystemExit | None), f"`gradclip summary` raised {shown.exception!r}")
    check_text(shown.stderr, "standard error")
    check_text(shown.stdout, "standard output")
    if refused:
        require(shown.exit_code == 3, f"a record that is refused gives exit code {shown.exit_code}: {refused}")
    else:
        require(shown.exit_code in (0, 1, 3), f"exit code {shown.exit_code}")
        if example["format"] == "json":
            parse_strictly(shown.stdout, "json")


def _find_refusal(path: Path, unchanged: Path, name: str) -> str:
    """Return why a record is refused. The text is empty if it is read, drawn, and compared with an unchanged one."""
    with contextlib.suppress(RecordError):
        check_drawings([read_partial(path)])
    try:
        runs = read_runs(path, allow_incomplete=True)
    except RecordError as error:
        check_text(str(error), "a refusal")
        require(len(str(error)) < 20_000, f"a refusal of {len(str(error))} characters")
        return str(error)
    check_drawings(runs)
    unchanged.write_text(write_record(DOCUMENTS[name], []), encoding="utf-8")
    check_differences(runs[0], *read_runs(unchanged))
    try:
        whole = read_runs(path)
    except RecordError as error:
        return str(error)
    check_site(whole, path.parent / "site")
    return ""


TARGET = Target(EXAMPLES, check)
