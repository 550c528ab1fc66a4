"""Check that records read back as written, and that a damaged one is refused with one clear message."""

from __future__ import annotations

import dataclasses
import gzip
import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from sample_runs import make_cell, make_header, make_run, write_record_text

import gradclip_reports
from gradclip_reports import limits, reading, schema
from gradclip_reports.lines import Line, make_strict
from gradclip_reports.records import (
    Cell,
    Finding,
    Footer,
    Header,
    RecordError,
    Run,
    check_cell,
    hash_plan,
    make_footer,
    read_partial,
    read_runs,
    write_run,
)
from gradclip_reports.statuses import CELL_STATUSES

PLAN = [("clip", f"norm.scaled-above/one-tensor/{dtype}") for dtype in ("float32", "float64", "float16")]

#: The lines of the record below: a header, three cells and a footer.
EVERY = [0, 1, 2, 3, 4]
(ENTRY_POINT,) = make_header().subjects

Write = Callable[[str], Path]


@pytest.fixture
def record() -> list[dict[str, Any]]:
    """Return the lines of a whole record: a header, three cells and a footer."""
    text = write_record_text([make_run(make_header(), [make_cell(case=case) for _, case in PLAN])])
    return [json.loads(line) for line in text.splitlines()]


def write_text(record: list[dict[str, Any]]) -> str:
    return "".join(json.dumps(line) + "\n" for line in record)


class TestRoundTrip:
    def test_runs_read_back_as_written(self, several_runs: list[Run], write_record: Write) -> None:
        read = read_runs(write_record(write_record_text(several_runs)))

        assert [run.cells for run in read] == [run.cells for run in several_runs]
        assert [run.header for run in read] == [run.header for run in several_runs]
        assert [run.footer.to_json() for run in read] == [run.footer.to_json() for run in several_runs]

    def test_infinite_ulp_is_a_string_and_reads_back(self) -> None:
        cell = make_cell(ulp=float("inf"))

        assert cell.to_json()["ulp"] == "inf"
        assert Cell.from_json(cell.to_json()) == cell

    def test_number_outside_json_becomes_a_text(self) -> None:
        value = {"a": [float("inf"), (float("-inf"), {"b": float("nan")})], "c": 1.5, "d": None, "e": True}

        assert make_strict(value) == {"a": ["inf", ["-inf", {"b": "nan"}]], "c": 1.5, "d": None, "e": True}

    def test_line_separators_in_text_do_not_split_lines(self, write_record: Write) -> None:
        cell = make_cell(status="fail", detail="one\u2028two\x85three\nfour")

        assert read_runs(write_record(write_record_text([make_run(make_header(), [cell])])))[0].cells == (cell,)

    @pytest.mark.parametrize("line", [Header, Cell, Finding, Footer])
    def test_schema_knows_the_members_and_statuses_of_the_code(self, line: type[Line]) -> None:
        path = Path(str(gradclip_reports.__file__)).parent / "schemas" / f"{line.kind}.json"
        members = json.loads(path.read_text("utf-8"))["properties"]

        assert set(members) == {"record", *(field.name for field in dataclasses.fields(line))}
        lists = [members.get("status", {}), members.get("counts", {}).get("propertyNames", {})]
        assert all(tuple(each["enum"]) == CELL_STATUSES for each in lists if each)


class TestWriting:
    def test_cell_that_occurs_twice_is_refused(self) -> None:
        with pytest.raises(RecordError, match=r"has the cell 'clip norm.*' 2 times"):
            write_run(io.StringIO(), make_run(make_header(), [make_cell(), make_cell()]))

    @pytest.mark.parametrize(
        ("members", "problem"),
        [
            ({"status": "passed", "detail": "?"}, "there is no status 'passed'"),
            ({"status": "fail", "detail": ""}, "its status is 'fail' and its detail is empty"),
            ({"ulp": float("nan")}, "its ulp is nan"),
            ({"ulp": -1.0}, r"its ulp is -1\.0"),
        ],
    )
    def test_cell_that_would_not_read_back_is_refused(self, members: dict[str, Any], problem: str) -> None:
        with pytest.raises(RecordError, match=problem):
            check_cell(make_cell(**members))

    def test_text_that_utf8_cannot_hold_does_not_stop_the_run(self, write_record: Write) -> None:
        written = make_cell(detail="\ud800 梯度", observed={"\ud800": 1})

        (cell,) = read_runs(write_record(write_record_text([make_run(make_header(), [written])])))[0].cells

        assert (cell.detail, cell.observed) == ("\\ud800 梯度", {"\\ud800": 1})

    def test_footer_is_that_of_a_whole_run(self) -> None:
        footer = make_footer([make_cell(case=case) for _, case in PLAN])

        assert (footer.planned, footer.finished, footer.incomplete, footer.counts) == (3, 3, False, {"pass": 3})
        assert footer.plan_sha256 == hash_plan(reversed(PLAN))

    def test_fingerprint_is_sha256_of_the_sorted_lines(self) -> None:
        # The command `printf 'a x\nb x' | sha256sum` prints this hash.
        expected = "4c329601c8974d2f70c4348c30e805501e57ff640937d2131e73f03b775442c8"

        assert hash_plan([("b", "x"), ("a", "x")]) == expected


class TestCompressed:
    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        return tmp_path / "record.jsonl.gz"

    def test_compressed_record_equals_the_plain_one(self, torch_run: Run, write_record: Write, path: Path) -> None:
        text = write_record_text([torch_run])
        path.write_bytes(gzip.compress(text.encode()))

        assert read_runs(path) == read_runs(write_record(text))

    @pytest.mark.parametrize("damage", ["cut", "flipped", "not compressed"])
    def test_damaged_file_is_refused(self, torch_run: Run, path: Path, damage: str) -> None:
        text = write_record_text([torch_run]).encode()
        content = bytearray(text if damage == "not compressed" else gzip.compress(text))
        if damage == "cut":
            content = content[:-20]
        elif damage == "flipped":
            content[len(content) // 2] ^= 0xFF
        path.write_bytes(content)

        with pytest.raises(RecordError, match="the file cannot be read"):
            read_runs(path)

    def test_limit_holds_for_the_decompressed_size(self, path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(reading, "FILE", 10_000)
        monkeypatch.setattr(limits, "FILE", 10_000)
        path.write_bytes(gzip.compress(b" " * 1_000_000))
        assert path.stat().st_size < 10_000

        # Reading decompresses one byte more than the limit, and no further byte. A device is read in the same way.
        with pytest.raises(RecordError, match="10001 bytes in one file"):
            read_runs(path)


class TestDamaged:
    """Check that each damage is reported with the file, the line, the problem and what to do."""

    def test_cut_in_the_last_line(self, record: list[dict[str, Any]], write_record: Write) -> None:
        with pytest.raises(RecordError, match=r"record\.jsonl, line 5: not JSON .*cut short.*gradclip check"):
            read_runs(write_record(write_text(record)[:-20]))

    @pytest.mark.parametrize(
        ("lines", "changes", "problem"),
        [
            ([0, 1, 2, 3], {}, r"line 4: the run of 'torch' has no footer: .* after 3 cells"),
            ([0, 1, 2, 3, 0, 1], {}, "line 5: a new run begins, but the run before it has no footer"),
            ([1, 2, 3, 4], {}, "line 1: a cell is outside any run"),
            ([4], {}, "line 1: a footer is outside any run"),
            ([0, 1, 1, 2, 3, 4], {4: {"finished": 4}}, r"the cell clip norm\.scaled-above/one-tensor/float32 2 times"),
            ([0, 2, 3, 4], {}, "lacks cells: its footer says 3 finished, and 2 are there"),
            (
                [0, 2, 3, 4],
                {4: {"finished": 2, "counts": {"pass": 2}}},
                "lacks cells: 3 were planned, 2 finished, and 0 are named as not run",
            ),
            (
                [0, 2, 3, 4],
                {4: {"finished": 2, "counts": {"pass": 2}, "incomplete": True}},
                "0 are named as not run",
            ),
            (
                [0, 2, 3, 4],
                {4: {"finished": 2, "counts": {"pass": 2}, "not_run": PLAN[:1]}},
                "3 were planned, 2 finished, and 1 are named as not run",
            ),
            (EVERY, {4: {"counts": {"pass": 2, "fail": 1}}}, "disagrees with its footer: found 3 cells, .*'pass': 3"),
            (EVERY, {1: {"case": "norm.scaled-above/edited/float32"}}, "fingerprint of the plan differs"),
            (EVERY, {1: {"subject": "other"}}, "a cell of 'other' for clip_by_norm, which its header does not list"),
            (
                [0, 2, 3, 4],
                {4: {"finished": 2, "counts": {"pass": 2}, "incomplete": True, "not_run": [("other", "one/case")]}},
                "names the cell one/case of 'other' as not run, which its header does not list",
            ),
            # A newer schema is reported first.
            (EVERY, {0: {"schema": 2, "members": "new"}}, "line 1: written in record schema 2, .* 1 only. Upgr"),
            (EVERY, {0: {"schema": 0}}, "line 1: written in record schema 0, .* 1 only. Make the record again"),
            (EVERY, {0: {"subjects": [ENTRY_POINT, ENTRY_POINT]}}, "'clip' occurs 2 times"),
            (
                EVERY,
                {0: {"subjects": [ENTRY_POINT | {"name": f"clip{number}"} for number in range(257)]}},
                r"\$\.subjects must contain less than or equal to 256 items",
            ),
        ],
    )
    def test_lines_that_make_no_whole_run_are_refused(
        self,
        record: list[dict[str, Any]],
        write_record: Write,
        lines: list[int],
        changes: dict[int, dict[str, Any]],
        problem: str,
    ) -> None:
        for line, members in changes.items():
            record[line] |= members
        path = write_record(write_text([record[line] for line in lines]))

        with pytest.raises(RecordError, match=problem):
            read_runs(path, allow_incomplete=bool(record[-1]["incomplete"]))

    def test_part_of_a_run_whose_header_lists_another_entry_point_is_refused(
        self, record: list[dict[str, Any]], write_record: Write
    ) -> None:
        record[2]["subject"] = "other"
        with pytest.raises(RecordError, match="a cell of 'other' for clip_by_norm, which its header does not list"):
            read_partial(write_record(write_text(record[:4])))

    def test_former_names_of_statuses_are_read_as_the_present_ones(
        self, record: list[dict[str, Any]], write_record: Write
    ) -> None:
        _, *cells, footer = record
        for cell, status in zip(cells, ("deviation", "changed", "declared"), strict=True):
            cell |= {"status": status, "detail": "It differs."}
        footer["counts"] = {"deviation": 1, "changed": 1, "declared": 1}

        (run,) = read_runs(write_record(write_text(record)))

        assert [cell.status for cell in run.cells] == ["known", "fail", "documented"]
        assert run.footer.counts == {"known": 1, "fail": 1, "documented": 1}

    @pytest.mark.parametrize(
        ("line", "members", "problem"),
        [
            (0, {"schema": "1"}, r"\$\.schema must be same as const definition: 1"),
            (0, {"surplus": 1}, r"\$ must not contain \{'surplus'\} properties"),
            (0, {"started": "yesterday"}, r"\$\.started must match pattern"),
            (0, {"framework": {"name": "torch"}}, r"\$\.framework must contain \['version'\] properties"),
            (0, {"environment": {"python": "3.11"}}, r"\$\.environment must contain \['platform'\] properties"),
            (1, {"status": "passed"}, r"\$\.status must be one of"),
            (1, {"level": "may"}, r"\$\.level must be one of"),
            (1, {"status": "fail"}, r"\$\.detail must be longer"),
            (1, {"ulp": "nan"}, r"\$\.ulp"),
            (1, {"ulp": -1}, r"\$\.ulp"),
            (1, {"seconds": "0.1"}, r"\$\.seconds must be number"),
            (-1, {"plan_sha256": "0"}, r"\$\.plan_sha256"),
            (-1, {"counts": {"passed": 3}}, r"\$\.counts must be named by propertyName definition"),
            (-1, {"planned": True}, r"\$\.planned must be integer"),
        ],
    )
    def test_schema_violation_is_named(
        self, record: list[dict[str, Any]], write_record: Write, line: int, members: dict[str, Any], problem: str
    ) -> None:
        record[line] |= members
        with pytest.raises(RecordError, match=f"violates its schema: .*{problem}"):
            read_runs(write_record(write_text(record)))

    @pytest.mark.parametrize(
        ("text", "problem"),
        [
            ("", "the file holds no run"),
            ("\n\n", "the file holds no run"),
            ("not json\n", "line 1: not JSON"),
            ("[1, 2]\n", 'line 1: not a line of a record: "record" must be .* got None'),
            ('{"record": "page"}\n', "got 'page'"),
            ('{"record": ["cell"]}\n', r"got \['cell'\]"),
            ('{"record": "cell", "ulp": NaN}\n', "NaN is not a JSON number"),
            ("[" * 100_000, "line 1: not JSON .maximum recursion depth"),
        ],
    )
    def test_file_that_is_not_a_record_is_refused(self, write_record: Write, text: str, problem: str) -> None:
        with pytest.raises(RecordError, match=problem):
            read_runs(write_record(text))

    def test_missing_or_binary_file_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(RecordError, match=r"cannot be read: .*No such file.*Name a record"):
            read_runs(tmp_path / "nowhere.jsonl")
        path = tmp_path / "bytes.jsonl"
        path.write_bytes(b"\xff\xfe\x00")
        with pytest.raises(RecordError, match=r"cannot be read: it is not text\. Name a record"):
            read_runs(path)

    def test_each_lost_line_and_each_cut_is_refused(self, small_run: Run, write_record: Write) -> None:
        text = write_record_text([small_run])
        lines = text.splitlines(keepends=True)
        damaged = ["".join(lines[:place] + lines[place + 1 :]) for place in range(len(lines))]
        damaged += [text[:length] for length in range(0, len(text) - 1, 37)]

        for damage in damaged:
            with pytest.raises(RecordError):
                read_runs(write_record(damage), allow_incomplete=True)

    @pytest.mark.parametrize(
        ("members", "problem"),
        [
            *(({"norm_types": [each]}, "an order of a norm") for each in ("nan", "0x1p+99999", "-0x1p+0", "two")),
            *(({"formula": {"eps": {"hex": each}}}, "a number of a formula") for each in ("0x1p+99999", "one", None)),
        ],
        ids=str,
    )
    def test_invalid_number_of_an_entry_point_is_refused(
        self, record: list[dict[str, Any]], write_record: Write, members: dict[str, Any], problem: str
    ) -> None:
        record[0]["subjects"][0] |= members

        with pytest.raises(RecordError, match=f"is not {problem}"):
            read_runs(write_record(write_text(record)))

    def test_messages_have_no_escape_codes(self, record: list[dict[str, Any]], write_record: Write) -> None:
        record[0]["adapter"] = "\x1b[2J\u202etorch"
        del record[-1]

        with pytest.raises(RecordError) as refused:
            read_runs(write_record(write_text(record)))
        assert str(refused.value).isprintable()

    def test_missing_fastjsonschema_says_what_to_install(
        self, monkeypatch: pytest.MonkeyPatch, record: list[dict[str, Any]], write_record: Write
    ) -> None:
        schema._compile.cache_clear()
        monkeypatch.setitem(sys.modules, "fastjsonschema", None)
        with pytest.raises(ModuleNotFoundError, match=r"install gradclip-spec\[check\]"):
            read_runs(write_record(write_text(record)))


class TestLimits:
    """Check that oversized data is refused with the name of the limit, and that the suite never writes such data."""

    @pytest.mark.parametrize(
        ("line", "members", "problem"),
        [
            (1, {"detail": "x" * (1 << 16)}, None),
            # Brackets in a text do not count as nesting.
            (1, {"detail": '"' + "[" * 1000 + '\\"'}, None),
            (1, {"detail": "x" * (1 + (1 << 16))}, r"\$\.detail must be shorter than or equal to 65536 characters"),
            (1, {"subject": "x" * 513}, r"\$\.subject must be shorter than or equal to 512 characters"),
            (0, {"framework": {"name": "torch", "version": "2" * 600}}, "version must be shorter than"),
            (0, {"environment": {"python": "3", "platform": "y" * 70_000}}, "platform must be shorter than"),
            (1, {"detail": "half \ud800"}, "surrogates not allowed"),
            (1, {"seconds": 1e300}, "more than a century"),
            (0, {"started": "2026-99-21T02:38:27Z"}, r"\$\.started: month must be in 1\.\.12"),
        ],
    )
    def test_oversized_member_is_refused(
        self, record: list[dict[str, Any]], write_record: Write, line: int, members: dict[str, Any], problem: str | None
    ) -> None:
        record[line] |= members
        path = write_record(write_text(record))
        if problem is None:
            assert read_runs(path)
            return
        with pytest.raises(RecordError, match=f"line {line + 1}: .*{problem}"):
            read_runs(path)

    @pytest.mark.parametrize(
        ("ulp", "problem"),
        [
            ("9" * 4000, "4000 characters in one number, and the limit is 40"),
            ("1e999", "1e999 is beyond the range of float64"),
        ],
    )
    def test_oversized_number_is_refused(
        self, record: list[dict[str, Any]], write_record: Write, ulp: str, problem: str
    ) -> None:
        text = write_text(record).replace('"ulp": null', f'"ulp": {ulp}', 1)

        with pytest.raises(RecordError, match=f"line 2: {problem}"):
            read_runs(write_record(text))

    def test_deep_nesting_is_refused(self, record: list[dict[str, Any]], write_record: Write) -> None:
        record[1]["observed"] = "NESTED"
        text = write_text(record)
        assert read_runs(write_record(text.replace('"NESTED"', "[" * 30 + "]" * 30)))

        with pytest.raises(RecordError, match="more than 32 levels of nesting"):
            read_runs(write_record(text.replace('"NESTED"', "[" * 450 + "]" * 450)))

    @pytest.mark.parametrize(("name", "what"), [("FILE", "bytes"), ("VALUES", "values")])
    def test_size_above_its_limit_is_refused(
        self, monkeypatch: pytest.MonkeyPatch, record: list[dict[str, Any]], write_record: Write, name: str, what: str
    ) -> None:
        path = write_record(write_text(record))
        monkeypatch.setattr(limits, name, 30)

        with pytest.raises(RecordError, match=f"[0-9]+ {what} in one file, and the limit is 30"):
            read_runs(path)

    def test_written_record_is_within_the_limits(self, write_record: Write) -> None:
        cell = make_cell(
            status="crash",
            detail="\ud800" * 100_000,
            observed={"raised": "x" * 100_000, "dtype": "x" * 999, "k" * 999: ["x"]},
            behaviour="y" * 999,
        )

        (run,) = read_runs(write_record(write_record_text([make_run(make_header(version="z" * 100_000), [cell])])))
        assert run.cells[0].detail.endswith("characters in all)")
        assert run.header.framework["version"].startswith("zzz")
