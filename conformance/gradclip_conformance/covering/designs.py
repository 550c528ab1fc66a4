"""Store and load the rows of the design: `designs/<operation>.json`, one character for each level.

The rows of a stage follow the rows of the earlier stages; the first stage already holds all pairs. If an axis gets
another level, the old rows stay, and new ones follow (`generate.extend`). So the ids of cases stay, too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from importlib.resources import files
from itertools import product
from typing import Any

from .axes import list_axes
from .constraints import find_reason
from .generate import STAGES, Stage, extend
from .members import CROWD

__all__ = ["FOLDER", "find_stage", "read_rows", "write_design"]

FOLDER = "designs"

#: The stages whose rows are stored. The rows of other stages are generated when needed.
STORED = ("quick", "default")

#: The levels that were added after the first design. Each is the last one of its axis.
ADDED = frozenset({"packed", "swapped"})

#: The levels that were heavy at first. The rows that combine them in triples follow all other rows.
EASED = frozenset({"one-row", "one-column"})

#: The crowds (`members.CROWD`) that the default stage adds to its other rows. An entry gives the levels that differ
#: from those of CROWD and are not ordinary. A kernel for lists may fail only for a long tensor of one kind near the end
#: of a long list. Such a row needs three heavy levels at once, and no stage's strength requires that.
CROWDS = (
    {"dtype": "float32", "layout": "reversed"},
    {"dtype": "float16", "layout": "broadcast", "excluded": "x-odd"},
    {"dtype": "float64", "layout": "contiguous"},
)

RELATIONS = ("above", "at", "slightly-above")

#: Long tensors in long lists: each dtype with each long list, and each of these with each relation. The levels are
#: heavy, so the triples of the default stage leave most of these rows out.
LONG_IN_LONG = tuple(
    {
        "dtype": dtype,
        "size": "s65537",
        "number": number,
        "relation": RELATIONS[(i + j) % len(RELATIONS)],
        # Only this data has an exact norm.
        "data": "edges" if RELATIONS[(i + j) % len(RELATIONS)] == "at" else "numbers",
    }
    for i, dtype in enumerate(("float16", "float32", "float64"))
    for j, number in enumerate(("n111", "n129", "n321"))
)

#: The levels of rows with one tensor that is excluded. The lengths of the lists of sizes, shapes and relations have no
#: common divisor, so that all pairs of their levels come in turn.
ALONE = {"number": "n1", "excluded": "x-all"}
ALONE_DTYPES = ("float32", "float16", "bfloat16", "float64")
ALONE_SIZES = ("s4", "s9", "s33", "s513", "s1025", "s4097", "s65537")

DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"

#: A line of the file has at most this many characters.
LINE = 110


def find_stage(name: str) -> Stage:
    """Return the stage of a name.

    Raises
    ------
    ValueError
        If there is no such stage.
    """
    for stage in STAGES:
        if stage.name == name:
            return stage
    msg = f"There is no stage {name!r}: {', '.join(stage.name for stage in STAGES)}."
    raise ValueError(msg)


@cache
def read_rows(operation: str, stage: str = "default") -> tuple[tuple[str, ...], ...]:
    """Return the rows of a stage and of earlier stages. A row holds a word for each axis, in the order of the axes."""
    last = STAGES.index(find_stage(stage))
    document = json.loads((files(__package__) / FOLDER / f"{operation}.json").read_text(encoding="utf-8"))
    rows = _list_words(document, [each.name for each in STAGES[: last + 1] if each.name in STORED])
    if STAGES[last].name not in STORED:
        axes = list_axes(operation)
        known = [tuple(axis.list_words().index(word) for axis, word in zip(axes, row, strict=True)) for row in rows]
        more = extend(operation, known, STAGES[last])
        rows += [tuple(axis.list_words()[level] for axis, level in zip(axes, row, strict=True)) for row in more]
    if last >= STAGES.index(find_stage("default")):
        more_levels = (*({**CROWD, **levels} for levels in CROWDS), *LONG_IN_LONG, *_list_alone(operation))
        rows += [row for row in dict.fromkeys(_make_row(operation, each) for each in more_levels) if row not in rows]
    return tuple(rows)


def _list_alone(operation: str) -> Iterator[dict[str, str]]:
    """Yield the levels of rows with a single tensor that is excluded, for each pair of a dtype and a layout.

    In other rows an excluded tensor has others beside it. The other kernel axes take their levels in turn.
    """
    axes = {axis.name: axis.list_words() for axis in list_axes(operation)}
    turn = 0
    for dtype, layout in product(ALONE_DTYPES, axes["layout"]):
        for _ in range(len(axes["shape"]) * len(ALONE_SIZES)):
            levels = {
                **ALONE,
                "dtype": dtype,
                "layout": layout,
                "shape": axes["shape"][turn % len(axes["shape"])],
                "size": ALONE_SIZES[turn % len(ALONE_SIZES)],
                "relation": axes["relation"][turn % len(axes["relation"])],
            }
            turn += 1
            if find_reason(operation, _make_row(operation, levels)) is None:
                yield levels
                break


def _make_row(operation: str, levels: Mapping[str, str]) -> tuple[str, ...]:
    """Return a row with some levels. The other levels are the ordinary ones."""
    return tuple(levels.get(axis.name, axis.levels[0].word) for axis in list_axes(operation))


def _list_words(document: Mapping[str, Any], stages: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the rows of some stages of a file. A new axis that the file lacks gets its ordinary level."""
    stored: Mapping[str, Sequence[str]] = document["axes"]
    axes = list_axes(document["operation"])
    found = []
    for stage in stages:
        text = "".join(document["rows"][stage])
        for start in range(0, len(text), len(stored)):
            levels = {name: stored[name][DIGITS.index(text[start + place])] for place, name in enumerate(stored)}
            found.append(tuple(levels.get(axis.name, axis.levels[0].word) for axis in axes))
    return found


def write_design(operation: str) -> str:
    """Return the text of an operation's file.

    The rows without the added levels come first, then those with them, and last the triples of the eased levels.
    """
    axes = list_axes(operation)
    second = [
        replace(axis, levels=tuple(replace(one, heavy=one.heavy or one.word in EASED) for one in axis.levels))
        for axis in axes
    ]
    first = [replace(axis, levels=tuple(one for one in axis.levels if one.word not in ADDED)) for axis in second]
    found: dict[str, list[tuple[int, ...]]] = {name: [] for name in STORED}
    for known in (first, second, axes):
        rows: list[tuple[int, ...]] = []
        for name in STORED:
            rows += found[name]
            more = extend(operation, rows, find_stage(name), known)
            rows += more
            found[name] += more
    written: dict[str, list[str]] = {}
    for name in STORED:
        text = "".join(DIGITS[level] for row in found[name] for level in row)
        written[name] = [text[start : start + LINE] for start in range(0, len(text), LINE)]
    document = {"operation": operation, "axes": {axis.name: axis.list_words() for axis in axes}, "rows": written}
    return json.dumps(document, indent=1) + "\n"
