"""Check `gradclip report`: what it writes, and what it refuses by name."""

from __future__ import annotations

import functools
import json
import shutil
from pathlib import Path

import pytest
from click.testing import Result
from runs import run_command

HOST = Path(__file__).with_name("hosts") / "right.py"


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the record of a few cases."""
    path = tmp_path_factory.mktemp("records") / "own.jsonl"
    narrow = ["--rule", "norm.each-tensor-alone", "--dtype", "float32", "--op", "clip_by_norm"]
    result = run_command("check", HOST, *narrow, "-o", path)
    assert path.is_file(), result.output
    return path


report = functools.partial(run_command, "report")


@pytest.mark.thorough(sample=0)
def test_site_of_a_folder_names_the_file_to_open(record: Path, tmp_path: Path) -> None:
    result = report(record.parent, "-o", tmp_path / "site")

    assert result.exit_code == 0, result.output
    assert f"open {tmp_path / 'site' / 'index.html'}" in join_lines(result)
    assert (tmp_path / "site" / "rule" / "norm-each-tensor-alone.html").is_file()
    assert str(record.parent) not in "".join(path.read_text("utf-8") for path in (tmp_path / "site").rglob("*.*"))


def join_lines(result: Result) -> str:
    """Return the output on one line, because long lines are wrapped."""
    return " ".join(result.output.split())


@pytest.mark.parametrize("named", ["the folder", "the record"])
def test_tables_beside_the_records_are_shown(named: str, record: Path, tmp_path: Path) -> None:
    records = tmp_path / "records"
    records.mkdir()
    kept = Path(shutil.copy(record, records))
    header = json.loads(record.read_text("utf-8").partition("\n")[0])
    row = {"dtype": "float32", "size": 10**7, "norm": 3.0, "elements": 2.0, "problem": ""}
    rows = [{**row, "subject": entry_point["name"]} for entry_point in header["subjects"]]
    framework = {"adapter": header["adapter"], "framework": "own", "version": header["framework"]["version"]}
    table = {"made": "2026-01-01", "frameworks": [{**framework, "rows": rows}]}
    (records / "accuracy.json").write_text(json.dumps(table), encoding="utf-8")

    result = report(records if named == "the folder" else kept, "-o", tmp_path / "site")

    assert result.exit_code == 0, result.output
    assert "3 ulp" in (tmp_path / "site" / "by-norm.html").read_text("utf-8")


def test_neighbour_other_than_a_table_is_left_out(record: Path, tmp_path: Path) -> None:
    kept = Path(shutil.copy(record, tmp_path))
    (tmp_path / "benchmarks.json").write_text('{"benchmarks": []}', encoding="utf-8")

    result = report(kept, "-o", tmp_path / "site")

    assert result.exit_code == 0, result.output
    assert "Left out:" in result.output
    assert "benchmarks.json is not a table" in join_lines(result)


def test_table_of_another_kind_is_refused_by_name(record: Path, tmp_path: Path) -> None:
    table = tmp_path / "table.json"
    table.write_text("{}", encoding="utf-8")

    result = report(record, "-o", tmp_path / "site", "--accuracy", table)

    assert result.exit_code == 3
    assert "table.json is not a table of measurements" in join_lines(result)
