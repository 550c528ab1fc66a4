"""List all changes of a single place in a document. They soon find a fault that one value causes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .mutation import find, list_paths
from .targets import answers, calls, greetings, known_files, own_files, records
from .texts import BREAKERS

__all__ = ["SWEEPS", "list_single_changes"]

#: Values of every type of JSON, and numbers at the ends of ranges.
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2, 2**31, 2**63, -(2**63), 10**30, 0.5, -0.0, 1e300),
    *("", "x", "0", "nan", [], [[]], [None], [1], ["x"], {}, {"": None}, {"hex": "0x1p+0"}, {"hex": "nan"}),
)
#: Texts in place of JSON values.
RAW = (
    *("NaN", "Infinity", "1e999", "9" * 400, "9" * 5000, "1e-99999", "[" * 450 + "]" * 450, '{"a":1,"a":2}'),
    *('{"hex":"0x1p+99999"}', '"\\ud800"', '"\\u0000"', "nul", ""),
)


def list_single_changes(document: Any) -> Iterator[list[Any]]:
    """Yield the changes of a single place, for one place of each kind. A change replaces, repeats or removes it."""
    kinds: dict[tuple[Any, ...], list[Any]] = {}
    for path in list_paths(document):
        names = tuple(step if isinstance(step, str) else "" for step in path)
        kinds.setdefault((names, type(find(document, path))), path)
    for path in kinds.values():
        yield from ([path, "set", value] for value in (*VALUES, *BREAKERS))
        yield from ([path, "raw", text] for text in RAW)
        yield from ([path, "times", number] for number in (2, 20, 5_000))
        yield from ([path, "nest", number] for number in (1, 50, 450))
        yield from ([path, "copy", other] for other in kinds.values() if other != path)
        yield from ([path, "drop", None], [path, "again", None], [path, "add", ["x", 1]])
        if isinstance(find(document, path), str):
            yield from ([path, what, text] for what in ("insert", "everywhere") for text in BREAKERS)


def _sweep_answers() -> Iterator[Any]:
    for place, case in enumerate(answers.CASES):
        for kind in answers.KINDS if place == 0 else ("reply",):
            message = answers.make_message(kind, case.call("clip"), 1)
            for one in list_single_changes(message):
                yield {"case": place, "kind": kind, "changes": [one]}


def _sweep_calls() -> Iterator[Any]:
    for one in list_single_changes(calls.DOCUMENT):
        yield {"calls": [[one]], "process": None}


def _sweep_greetings() -> Iterator[Any]:
    for name, document in greetings.DOCUMENTS.items():
        for one in list_single_changes(document):
            yield {"document": [name, [one]], "cut": None}


def _sweep_known_files() -> Iterator[Any]:
    for name, document in (*known_files.FILES.items(), ("proposed", known_files.RECORD)):
        for one in list_single_changes(document):
            yield {"file": name, "changes": [one], "at": -1}


def _sweep_own_files() -> Iterator[Any]:
    for name, document in own_files.FILES.items():
        for one in list_single_changes(document):
            yield [name, [one]]


def _sweep_records() -> Iterator[Any]:
    for name, document in records.DOCUMENTS.items():
        for one in list_single_changes(document):
            yield {"document": [name, [one]], "agrees": True, "bytes": -1, "at": 0, "format": "terminal"}


#: Functions that yield the examples with a single change, for each target that fuzzes documents.
SWEEPS: dict[str, Callable[[], Iterator[Any]]] = {
    "answers": _sweep_answers,
    "calls": _sweep_calls,
    "greetings": _sweep_greetings,
    "known_files": _sweep_known_files,
    "own_files": _sweep_own_files,
    "records": _sweep_records,
}
