"""Write the accuracy table twice: as a document with the versions that were measured, and as a page in Markdown."""

from __future__ import annotations

import datetime
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from gradclip_reports.lines import make_strict
from gradclip_reports.markup import draw_markdown_table, escape_markdown, format_code
from gradclip_reports.values import write_json

from ..judge.model import Description
from .measure import LARGE, LIMIT, THRESHOLD, Row

#: The columns of a page.
HEAD = ("dtype", "size", "norm", "elements", "spread", "worst input")


def describe_framework(adapter: str, description: Description, rows: Sequence[Row]) -> dict[str, Any]:
    """Return the measurements of one framework with today's date, as data for a document."""
    return {
        "adapter": adapter,
        "made": _get_today(),
        "framework": description.framework,
        "version": description.version,
        "environment": description.environment,
        "rows": [row.to_json() for row in rows],
    }


def _get_today() -> str:
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def keep_others(
    measured: Sequence[Mapping[str, Any]], earlier: Mapping[str, Any], order: Sequence[str]
) -> list[Mapping[str, Any]]:
    """Return the measurements of all frameworks: new ones, and those of an earlier document for the others.

    Adapters that `order` names come first, in that order.
    """
    # A document of an older suite has one date for all frameworks.
    found = {
        one["adapter"]: {"made": earlier.get("made", ""), "environment": {}, **one} for one in earlier["frameworks"]
    }
    found.update({one["adapter"]: one for one in measured})
    ordered = [name for name in order if name in found]
    return [found[name] for name in (*ordered, *(name for name in found if name not in ordered))]


def make_document(frameworks: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the measurements of all frameworks, with the date and the version of the suite."""
    return {
        "made": _get_today(),
        "suite": version("gradclip-spec"),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "threshold": THRESHOLD,
        "frameworks": list(frameworks),
    }


def write_files(made: Mapping[str, Any], output: Path) -> None:
    """Write a document as `output` with the endings ".json" and ".md".

    Raises
    ------
    OSError
        If a file cannot be written.
    """
    text = write_json(make_strict(made), indent=1) + "\n"
    output.with_name(output.name + ".json").write_text(text, encoding="utf-8")
    output.with_name(output.name + ".md").write_text(write_page(made), encoding="utf-8")


def write_page(made: Mapping[str, Any]) -> str:
    """Return a document as Markdown. Entry points with the same numbers share a table."""
    blocks = [_ABOUT.format(**made, large=f"{LARGE:,}", limit=LIMIT)]
    for framework in made["frameworks"]:
        environment = ", ".join(f"{name} {value}" for name, value in sorted(framework["environment"].items()))
        blocks.append(f"## {escape_markdown(framework['framework'])} {escape_markdown(framework['version'])}".rstrip())
        blocks.append(
            f"Measured on {framework['made']}" + (f": {escape_markdown(environment)}." if environment else ".")
        )
        for names, rows in _group_equal_rows(framework["rows"]):
            blocks.append("\n".join(f"- {format_code(name)}" for name in names))
            shown = [[*cells, escape_markdown(worst)] for *cells, worst in map(format_cells, rows)]
            blocks.append(draw_markdown_table([HEAD, *shown], right=HEAD[1:5]))
    return "\n\n".join(blocks) + "\n"


_ABOUT = """# How accurate the clips by norm are

Measured by `gradclip accuracy` with gradclip-spec {suite}, Python {python}, NumPy {numpy}. `nox -s published` makes it
anew at each release.

The table gives the largest errors in ulp of the dtype. The error of the returned norm is its distance from the exact
norm. The error of an element is its distance from the exact result of the formula in the entry point's own
documentation. *Spread*: the largest difference in the norm or an element if the same elements come in another order, or
in ten tensors instead of one. `clip_norm` is {threshold:g}. A single rounding has an error of at most half an ulp.

There are two kinds of input. `normal`: random numbers. `swamped`: one element of 1 and many small numbers, each with a
square that is too small to change a sum of 1. Below {large} elements there are two seeds and four arrangements; from
there on, one seed and two arrangements. A call has {limit:g} s to answer. A row without numbers says why. This call
rebuilds a worst input from its name, the size and the dtype:
`gradclip_conformance.accuracy.measure.rebuild_gradients("normal, seed 1, ten tensors", 1000, "float32")`."""


def _group_equal_rows(rows: Iterable[Mapping[str, Any]]) -> Iterator[tuple[list[str], list[Mapping[str, Any]]]]:
    """For each group of entry points with the same numbers, yield their names and the rows of one entry point."""
    found: dict[tuple[Any, ...], tuple[list[str], list[Mapping[str, Any]]]] = {}
    for entry_point, group in groupby(rows, key=lambda row: row["subject"]):
        of_it = list(group)
        key = tuple(tuple(value for name, value in row.items() if name != "subject") for row in of_it)
        found.setdefault(key, ([], of_it))[0].append(entry_point)
    yield from found.values()


def format_cells(row: Mapping[str, Any]) -> list[str]:
    """Return the cells of a row. The last one names the input of the largest errors, or says why there is none."""
    start = [row["dtype"], f"{row['size']:,}"]
    if row["problem"]:
        return [*start, "-", "-", "-", row["problem"]]
    worst = str(row["elements_input"])
    if row["norm"] is not None and row["norm_input"] != worst:
        worst = f"norm: {row['norm_input']}; elements: {worst}"
    numbers = ("-" if row[name] is None else f"{float(row[name]):.3g}" for name in ("norm", "elements", "spread"))
    return [*start, *numbers, worst]
