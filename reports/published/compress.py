"""Compress the records beside this file and those in `older/`. The same record always gives the same bytes."""

from __future__ import annotations

import gzip
from pathlib import Path

HERE = Path(__file__).resolve().parent


def compress() -> None:
    """Replace each `*.jsonl` by `*.jsonl.gz`."""
    for path in sorted([*HERE.glob("*.jsonl"), *HERE.glob("older/*.jsonl")]):
        # Leave out the time, so that an unchanged record gives the same file.
        path.with_name(path.name + ".gz").write_bytes(gzip.compress(path.read_bytes(), compresslevel=9, mtime=0))
        path.unlink()


if __name__ == "__main__":
    compress()
