"""Define the verb `gradclip report`: write a static site from records."""

from __future__ import annotations

import contextlib
import gc
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from gradclip_reports.progress import Task, say_line, show_task
from gradclip_reports.records import Cell, RecordError, Run, read_partial, read_runs
from gradclip_reports.site.build import build_site
from gradclip_reports.site.catalogue import Catalogue
from gradclip_reports.site.measured import read_accuracy, read_speeds
from gradclip_reports.values import escape_line, format_count
from gradclip_spec import rules
from gradclip_spec.rules.causes import load_causes
from gradclip_spec.rules.questions import load_questions

from ..known.failures import depends_on_chance
from ..repro.script import NoScript, write_script
from .summary import find_records, partial_option, refuse_second

#: The expected values of a script are computed element by element, which takes a minute for 16 million elements.
LONGEST = 10**5

Table = TypeVar("Table")

FOLDER = click.Path(path_type=Path, file_okay=False)
TABLE = click.Path(path_type=Path, exists=True, dir_okay=False)


@click.command(short_help="Write a site of pages from records.")
@click.argument("records", nargs=-1, required=True, metavar="RECORD...", type=click.Path(path_type=Path, exists=True))
@click.option("-o", "--output", "folder", required=True, metavar="DIR", type=FOLDER, help="The folder of the site.")
@click.option("--accuracy", metavar="JSON", type=TABLE, help="The table that `gradclip accuracy -o` wrote.")
@click.option("--benchmarks", metavar="JSON", type=TABLE, help="The table that `nox -s bench` wrote.")
@click.option("--manual", default="", metavar="ADDRESS", help="A link to the manual, relative to DIR.")
@partial_option
def report(
    records: tuple[Path, ...],
    folder: Path,
    accuracy: Path | None,
    benchmarks: Path | None,
    manual: str,
    partial: bool,
) -> None:
    """Write a static site from records: open DIR/index.html in a browser, without a server or a network.

    A folder stands for the records in it. If accuracy.json and benchmarks.json lie beside the records, the site shows
    these tables. Frameworks stand in the order in which their records are named. Several records of one adapter become
    a history. Records in a folder `older` beside the records get no page: they say since when and until when a finding
    is shown. The site has the matrix of questions, a page for each framework, entry point, rule and cause, and a page
    that compares any two frameworks.

    If a record is incomplete, damaged or of a newer version, the command names it and writes nothing, and the exit code
    is 3.
    """
    try:
        with _pause_collector():
            count = _report(records, folder, accuracy, benchmarks, manual, partial)
    except (RecordError, OSError) as problem:
        say_line(escape_line(str(problem)))
        sys.exit(3)
    click.echo(f"{count} files; open {escape_line(str(folder / 'index.html'))}")


@contextlib.contextmanager
def _pause_collector() -> Iterator[None]:
    """Switch off the search for cycles of objects: records hold a million objects, and the search finds no cycle."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _report(
    records: Sequence[Path],
    folder: Path,
    accuracy: Path | None,
    benchmarks: Path | None,
    manual: str,
    partial: bool,
) -> int:
    """Write the site, and return the number of its files."""
    paths = find_records(records)
    if not paths:
        msg = f"There is no record (*.jsonl, *.jsonl.gz) in {', '.join(map(str, records))}."
        raise click.UsageError(escape_line(msg))
    folders = list(dict.fromkeys(path if path.is_dir() else path.parent for path in records))
    other = find_records([folder / "older" for folder in folders if (folder / "older").is_dir()])
    number = len(paths) + len(other)
    with show_task(f"{format_count(number, 'record')} to read", number) as task:
        runs = list(_read(paths, task, partial))
        older = [run for run, _ in _read(other, task)]
        catalogue = Catalogue(
            load_questions(),
            rules.load(),
            tuple(load_causes().values()),
            read_accuracy(accuracy) if accuracy else _read_neighbour(folders, "accuracy.json", read_accuracy) or (),
            read_speeds(benchmarks) if benchmarks else _read_neighbour(folders, "benchmarks.json", read_speeds) or (),
            depends_on_chance,
        )
        task.note("writing the pages")
        return build_site(runs, folder, catalogue, _write_script, older, manual)


def _read_neighbour(folders: Sequence[Path], name: str, read: Callable[[Path], Table]) -> Table | None:
    """Return the first table of this name beside the records. Name and leave out a file that holds something else."""
    path = next((folder / name for folder in folders if (folder / name).is_file()), None)
    try:
        return read(path) if path else None
    except RecordError as problem:
        say_line(f"Left out: {escape_line(str(problem))}")
        return None


def _read(paths: Sequence[Path], task: Task, partial: bool = False) -> Iterator[tuple[Run, str]]:
    """Yield each run with the name of its record, and refuse a run that is given twice."""
    seen: list[Run] = []
    for path in paths:
        task.note(f"reading {escape_line(path.name)}")
        for run in [read_partial(path)] if partial else read_runs(path):
            refuse_second(run, seen, path)
            seen.append(run)
            # Only the file's name: pages must not show the folders of the machine that made them.
            yield run, path.name
        task.advance()


def _write_script(run: Run, cell: Cell) -> str:
    """Return the script of a cell. Return nothing if none can be written, or if its gradients are long."""
    if _count_elements(cell.input) > LONGEST:
        return ""
    try:
        return write_script(run.header, cell)
    except NoScript:
        return ""


def _count_elements(value: Any) -> int:
    """Return the number of elements of all arrays in an input."""
    if isinstance(value, Mapping):
        shape = value.get("shape")
        if isinstance(shape, list) and all(type(length) is int for length in shape):
            return math.prod(shape)
        return sum(map(_count_elements, value.values()))
    return sum(map(_count_elements, value)) if isinstance(value, list) else 0
