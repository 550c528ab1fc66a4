"""Check frameworks, and publish each record as soon as it is made, so that an interrupted run keeps it.

`python make_records.py torch optax@0.1.9` checks these two, each in its own environment, and writes `torch.jsonl.gz`
and `older/optax-0.1.9.jsonl.gz` beside this file. `python make_records.py --accuracy torch` measures how accurate torch
is instead, and writes it to `accuracy.json` and `accuracy.md`. As many frameworks run at once as there are processors:
one keeps one processor busy, because the suite waits while the framework answers.
"""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Lock

from changed import ACCURACY, RECORDS, note

from gradclip_conformance.accuracy.page import keep_others, make_document, write_files
from gradclip_conformance.run.environments import read_recipes

HERE = Path(__file__).resolve().parent
#: The exit codes of a whole run, and what they mean. Not to be as expected is a valid result here.
ENDS = {0: "as expected", 1: "not as expected"}
#: The largest number of elements in the published measurements of accuracy.
LARGEST = 10**7
#: `gradclip accuracy` says this of a framework whose clips need no measurement.
NOTHING = "because clips by value round nothing"

#: The GNU C library returns the memory of each large array to the system, and then requests it again. This takes a
#: third of the time of a measurement. With these settings, a process keeps its memory. Other systems ignore them.
KEEP_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(1 << 30), "MALLOC_TRIM_THRESHOLD_": str(4 << 30)}

publishing = Lock()


def make_record(name: str) -> bool:
    """Check one framework, and publish its record. Return whether there is a new record."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        done = run_gradclip("check", name, "-o", f"{folder}/")
        made = list(Path(folder).glob("*.jsonl"))
        is_made = done.returncode in ENDS and len(made) == 1
        with publishing:
            if is_made:
                publish(made[0], HERE / "older" if "@" in name else HERE)
                note(RECORDS, [name])
            say_end(name, ENDS[done.returncode] if is_made else "no new record", start, "" if is_made else done.stdout)
    return is_made


def measure_accuracy(name: str) -> bool:
    """Measure how accurate one framework is, and publish it. Return whether that is done."""
    start = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder, "accuracy.json")
        done = run_gradclip("accuracy", name, "--largest", str(LARGEST), "-o", str(made.with_suffix("")))
        has_nothing = NOTHING in done.stdout
        is_done = made.is_file() or has_nothing
        with publishing:
            if made.is_file():
                publish_accuracy(json.loads(made.read_text(encoding="utf-8"))["frameworks"])
            if is_done:
                note(ACCURACY, [name])
            end = "nothing to measure" if has_nothing else "measured" if is_done else "not measured"
            say_end(name, end, start, "" if is_done else done.stdout)
    return is_done


def run_gradclip(verb: str, name: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a verb for one framework in its own environment."""
    command = [sys.executable, "-m", "gradclip_conformance", verb, name, "--venv", *options]
    return subprocess.run(  # noqa: S603 - the names come from whoever runs this program
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        env={**os.environ, **(KEEP_MEMORY if verb == "accuracy" else {})},
    )


def say_end(name: str, end: str, start: float, output: str) -> None:
    """Print how a run has ended and how long it took, below the output of a run that failed."""
    print(f"{output}{name}: {end}, {(time.monotonic() - start) / 60:.1f} minutes", flush=True)


def publish(record: Path, folder: Path) -> None:
    """Compress a record into a folder. The same record always gives the same bytes."""
    # Leave out the time, so that an unchanged record gives the same file.
    compressed = gzip.compress(record.read_bytes(), compresslevel=9, mtime=0)
    (folder / f"{record.name}.gz").write_bytes(compressed)


def publish_accuracy(measured: Sequence[dict[str, object]]) -> None:
    """Write the measurements of frameworks into the published ones, and keep those of the others."""
    path = HERE / "accuracy.json"
    earlier = json.loads(path.read_text(encoding="utf-8"))
    write_files(make_document(keep_others(measured, earlier, list(read_recipes()))), path.with_suffix(""))


def estimate_cost(name: str) -> int:
    """Return a number that grows with the time that a check takes: the size of the last record."""
    folder, stem = (HERE / "older", name.replace("@", "-")) if "@" in name else (HERE, name)
    path = folder / f"{stem}.jsonl.gz"
    return path.stat().st_size if path.is_file() else sys.maxsize


def do_each(do: Callable[[str], bool], names: Sequence[str]) -> list[str]:
    """Do something for each name, several at once, the longest first. Return the names for which it failed."""
    ordered = sorted(names, key=estimate_cost, reverse=True)
    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        return [name for name, is_done in zip(ordered, pool.map(do, ordered), strict=True) if not is_done]


if __name__ == "__main__":
    if sys.argv[1:2] == ["--accuracy"]:
        if failed := do_each(measure_accuracy, sys.argv[2:]):
            sys.exit(f"no new measurement: {', '.join(failed)}")
    elif failed := do_each(make_record, sys.argv[1:]):
        sys.exit(f"no new record: {', '.join(failed)}")
