"""Check that compressed records are read and that damaged or oversized ones are refused."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from sample_runs import write_record_text

from gradclip_reports import limits, reading
from gradclip_reports.records import RecordError, Run, read_runs


@pytest.fixture
def text(torch_run: Run) -> str:
    """Return a whole record as JSON Lines."""
    return write_record_text([torch_run])


def test_compressed_record_equals_the_plain_one(text: str, tmp_path: Path) -> None:
    plain, compressed = tmp_path / "record.jsonl", tmp_path / "record.jsonl.gz"
    plain.write_text(text, encoding="utf-8")
    compressed.write_bytes(gzip.compress(text.encode()))

    assert read_runs(compressed) == read_runs(plain)


@pytest.mark.parametrize("damage", ["cut", "flipped", "not compressed"])
def test_damaged_file_is_refused(text: str, tmp_path: Path, damage: str) -> None:
    content = bytearray(gzip.compress(text.encode()))
    if damage == "cut":
        content = content[:-20]
    elif damage == "flipped":
        content[len(content) // 2] ^= 0xFF
    else:
        content = bytearray(text.encode())
    path = tmp_path / "record.jsonl.gz"
    path.write_bytes(content)

    with pytest.raises(RecordError, match="the file cannot be read"):
        read_runs(path)


def test_limit_holds_for_the_decompressed_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "FILE", 10_000)
    monkeypatch.setattr(limits, "FILE", 10_000)
    path = tmp_path / "record.jsonl.gz"
    path.write_bytes(gzip.compress(b" " * 1_000_000))
    assert path.stat().st_size < 10_000

    # Reading decompresses one byte more than the limit, and no further byte.
    with pytest.raises(RecordError, match="10001 bytes in one file"):
        read_runs(path)
