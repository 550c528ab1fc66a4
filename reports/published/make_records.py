"""Check frameworks, and publish each record as soon as it is made, so that an interrupted run keeps it.

`python make_records.py torch optax@0.1.9` checks these two, each in its own environment, and writes `torch.jsonl.gz`
and `older/optax-0.1.9.jsonl.gz` beside this file. As many frameworks are checked at once as there are processors: one
check keeps one processor busy, because the suite waits while the framework answers.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

from changed import note

HERE = Path(__file__).resolve().parent
#: The exit codes of a whole run, and what they mean. Not to be as expected is a valid result here.
ENDS = {0: "as expected", 1: "not as expected"}

publishing = Lock()


def make_record(name: str) -> bool:
    """Check one framework, and publish its record. Return whether there is a new record."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "gradclip_conformance", "check", name, "--venv", "-o", f"{folder}/"]
        done = subprocess.run(  # noqa: S603 - the names come from whoever runs this program
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        made = list(Path(folder).glob("*.jsonl"))
        is_made = done.returncode in ENDS and len(made) == 1
        with publishing:
            if is_made:
                publish(made[0], HERE / "older" if "@" in name else HERE)
                note([name])
            else:
                print(done.stdout)
            end = ENDS[done.returncode] if is_made else "no new record"
            print(f"{name}: {end}, {(time.monotonic() - start) / 60:.1f} minutes", flush=True)
    return is_made


def publish(record: Path, folder: Path) -> None:
    """Compress a record into a folder. The same record always gives the same bytes."""
    # Leave out the time, so that an unchanged record gives the same file.
    compressed = gzip.compress(record.read_bytes(), compresslevel=9, mtime=0)
    (folder / f"{record.name}.gz").write_bytes(compressed)


def estimate_cost(name: str) -> int:
    """Return a number that grows with the time that a check takes: the size of the last record."""
    folder, stem = (HERE / "older", name.replace("@", "-")) if "@" in name else (HERE, name)
    path = folder / f"{stem}.jsonl.gz"
    return path.stat().st_size if path.is_file() else sys.maxsize


def make_records(names: Sequence[str]) -> list[str]:
    """Make the records of all names, the longest first. Return the names without a new record."""
    ordered = sorted(names, key=estimate_cost, reverse=True)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return [name for name, is_made in zip(ordered, pool.map(make_record, ordered), strict=True) if not is_made]


if __name__ == "__main__":
    if failed := make_records(sys.argv[1:]):
        sys.exit(f"no new record: {', '.join(failed)}")
