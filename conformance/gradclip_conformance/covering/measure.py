"""Count the combinations of levels that the rows hold, independently of the generator."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, product

from gradclip_reports.markup import draw_markdown_table

from .axes import OPERATIONS, Axis, list_axes, list_heavy_levels
from .constraints import can_complete, find_reason
from .designs import find_stage, read_rows

__all__ = ["Coverage", "measure_coverage", "write_coverage_page"]

INDIRECT = "every complete row with this combination holds an impossible pair"


@dataclass
class Coverage:
    """The numbers of tested and possible combinations of one strength, and the reasons why others are impossible."""

    strength: int
    asked: int = 0
    possible: int = 0
    #: The possible combinations with a heavy level, which only `--thorough` tests.
    left: int = 0
    missing: list[tuple[str, ...]] = field(default_factory=list)
    impossible: Counter[str] = field(default_factory=Counter)


#: The coverage of each operation, by stage and by whether only kernel axes count.
_Measured = Mapping[tuple[str, bool], Sequence[Coverage]]


def measure_coverage(operation: str, stage: str = "default", kernel: bool = False) -> Coverage:
    """Return the coverage of a stage, either over all axes or over the kernel axes."""
    about = find_stage(stage)
    strength = about.kernel_strength if kernel else about.strength
    chosen = [axis for axis in list_axes(operation) if axis.kernel or not kernel]
    rows, names = read_rows(operation, stage), [axis.name for axis in list_axes(operation)]
    found = Coverage(strength)
    heavy = list_heavy_levels(operation) if strength > about.heavy_strength else frozenset()
    for group in combinations(chosen, strength):
        places = [names.index(axis.name) for axis in group]
        asked = {tuple(row[place] for place in places) for row in rows}
        _count(found, operation, group, asked, heavy)
    return found


def _count(
    found: Coverage, operation: str, group: Sequence[Axis], asked: set[tuple[str, ...]], heavy: frozenset[str]
) -> None:
    for words in product(*(axis.list_words() for axis in group)):
        if words in asked:
            found.asked += 1
            found.possible += 1
        elif (reason := find_reason(operation, words)) is not None:
            found.impossible[reason] += 1
        elif not can_complete(operation, words):
            found.impossible[INDIRECT] += 1
        elif heavy.intersection(words):
            found.left += 1
        else:
            found.possible += 1
            found.missing.append(words)


def write_coverage_page() -> str:
    """Return the page about the axes, and about the combinations that are tested and those that are not."""
    found = {
        (stage, kernel): [measure_coverage(operation, stage, kernel) for operation in OPERATIONS]
        for stage in ("default", "thorough")
        for kernel in (False, True)
    }
    return "\n".join([*_write_summary(found), *_write_axes(), *_write_reasons(found)]) + "\n"


def _write_summary(found: _Measured) -> Iterator[str]:
    yield from (
        "# Combinations that the covering design tests",
        "",
        "`gradclip rules --coverage` writes this page. Each test case of the covering design, a *row*, combines",
        "many circumstances of a call. An *axis* is one circumstance, such as the dtype, and its *levels* are the",
        "values that rows give to it, such as float16. The table counts the pairs and triples of levels that the",
        "rows test. Triples are tested among the *kernel axes*, which decide how a library computes. *Heavy*",
        "levels (many tensors, rare mixtures, shapes and thresholds) are tested in pairs only, and their triples",
        "are left to `--thorough`. The counts are about the longest tensor of each row. The other tensors of a row",
        "may have other shapes, layouts and sizes, so the rows test many more combinations than are counted.",
        "The last rows of each operation have a long tensor in a long list, ten long tensors of all shapes and",
        "layouts beyond the 1,024th place of a list, or a single tensor that is excluded. A function that its",
        "adapter compiles takes long for each new shape: without an option, it gets only as many rows as test all",
        "pairs. Clips by block RMS, by average norm, per example and by unit have no rows.",
        "",
    )
    yield _draw_counts(found, "default", "pairs", "triples of kernel axes", "heavy triples left")
    yield from (
        "",
        "With `--thorough`, the rows hold every possible triple of all axes, and every possible combination of four",
        "kernel axes, with heavy levels too. They are generated in each such run, and include the rows above.",
        "",
    )
    yield _draw_counts(found, "thorough", "triples", "combinations of four kernel axes", "left")


def _draw_counts(found: _Measured, stage: str, all_axes: str, kernel_axes: str, left: str) -> str:
    """Return a table with the tested and the possible combinations of each operation."""
    table: list[Sequence[object]] = [("operation", "rows", all_axes, "possible", kernel_axes, "possible", left)]
    for operation, few, many in zip(OPERATIONS, found[stage, False], found[stage, True], strict=True):
        counts = len(read_rows(operation, stage)), few.asked, few.possible, many.asked, many.possible, many.left
        table.append((operation, *(f"{count:,}" for count in counts)))
    return draw_markdown_table(table)


def _write_axes() -> Iterator[str]:
    known: dict[str, Axis] = {axis.name: axis for operation in OPERATIONS for axis in list_axes(operation)}
    for axis in known.values():
        kernel = ", a kernel axis" if axis.kernel else ""
        yield from ("", f"## {axis.name}{kernel}", "")
        rows = [(f"{level.word}{' (heavy)' if level.heavy else ''}", level.reason) for level in axis.levels]
        yield draw_markdown_table([("level", "reason"), *rows])


def _write_reasons(found: _Measured) -> Iterator[str]:
    yield from ("", "## Impossible combinations", "")
    counts = [sum((one.impossible for one in coverages), Counter[str]()) for coverages in found.values()]
    reasons = sorted(set().union(*counts), key=lambda reason: ([-count[reason] for count in counts], reason))
    rows = [(*(f"{count[reason]:,}" for count in counts), reason) for reason in reasons]
    yield draw_markdown_table([("pairs", "triples of kernel axes", "triples", "four kernel axes", "reason"), *rows])
