"""Change a valid JSON document. A change is itself JSON: `[path, what, argument]`."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from .texts import draw_attacks, draw_json_values, draw_raw_json, draw_texts

__all__ = ["change", "draw_changes", "draw_named", "find", "list_paths", "write_text"]

#: Numbers of repetitions. The largest exceed every sensible limit.
TIMES = (2, 3, 20, 200, 5_000, 200_000)
#: The number of characters to which a repetition may lengthen a value.
LONGEST = 20_000_000
#: The mark of a value that is given as JSON text.
RAW = "\ue000raw:"


def list_paths(document: Any, path: tuple[Any, ...] = ()) -> Iterator[list[Any]]:
    """Yield the path of each value of a document, first the path of the document itself."""
    yield list(path)
    if isinstance(document, dict):
        for key, value in document.items():
            yield from list_paths(value, (*path, key))
    elif isinstance(document, list):
        for index, value in enumerate(document):
            yield from list_paths(value, (*path, index))


def draw_changes(document: Any, largest: int = 3, times: Sequence[int] = TIMES) -> SearchStrategy[list[Any]]:
    """Draw changes of a document."""
    path = _draw_paths(document)
    one = st.one_of(
        st.tuples(path, st.just("set"), draw_texts()),
        st.tuples(path, st.just("set"), draw_json_values()),
        st.tuples(path, st.just("insert"), draw_texts()),
        st.tuples(path, st.just("drop"), st.none()),
        st.tuples(path, st.just("raw"), draw_raw_json()),
        st.tuples(path, st.just("times"), st.sampled_from(times)),
        st.tuples(path, st.just("add"), st.tuples(draw_texts(), draw_json_values()).map(list)),
        st.tuples(path, st.just("again"), draw_json_values()),
        st.tuples(path, st.just("nest"), st.sampled_from((1, 2, 50, 450, 5_000))),
        st.tuples(path, st.just("copy"), path),
    )
    # One change in three puts code or markup into a text, as a malicious record would.
    attack = st.tuples(_draw_paths(document, str), st.sampled_from(("set", "insert")), draw_attacks())
    again = st.tuples(_draw_paths(document, list), st.just("times"), st.just(2))
    # A name occurs in many places that must agree. If only one changes, the document is refused and tests nothing.
    everywhere = st.tuples(_draw_paths(document, str), st.just("everywhere"), draw_attacks())
    return st.lists(
        st.sampled_from((one, one, one, attack, attack, again, everywhere)).flatmap(lambda chosen: chosen).map(list),
        min_size=1,
        max_size=largest,
    )


def _draw_paths(document: Any, kind: type = object) -> SearchStrategy[list[Any]]:
    """Draw the path of a value. Each kind of place is equally likely, however often it occurs."""
    kinds: dict[tuple[str, ...], list[list[Any]]] = {}
    for path in list_paths(document):
        if not isinstance(find(document, path), kind):
            continue
        kinds.setdefault(tuple(step if isinstance(step, str) else "" for step in path), []).append(path)
    # If a document has no such value, the whole document is changed.
    return st.sampled_from(sorted(kinds.values(), key=len) or [[[]]]).flatmap(st.sampled_from)


def change(document: Any, wanted: Sequence[Sequence[Any]]) -> Any:
    """Return a changed copy of a document. Changes whose path no longer exists are left out."""
    holder = [copy.deepcopy(document)]
    for path, what, argument in wanted:
        try:
            parent = find(holder, [0, *path[:-1]] if path else [])
            _change_one(parent, path[-1] if path else 0, what, argument, holder[0])
        except (KeyError, IndexError, TypeError):
            continue
    return holder[0] if holder else None


def find(document: Any, path: Sequence[Any]) -> Any:
    """Return the value at a path."""
    for step in path:
        document = document[step]
    return document


def _change_one(parent: Any, key: Any, what: str, argument: Any, whole: Any) -> None:
    value = parent[key]
    if what == "everywhere":
        places = json.dumps(whole).count(json.dumps(value))
        _change_everywhere(whole, value, argument[: LONGEST // max(1, places)])
    elif what == "drop":
        del parent[key]
    elif what == "add" and isinstance(value, dict):
        value[argument[0]] = argument[1]
    elif what == "add" and isinstance(value, list):
        value.append(argument[1])
    else:
        parent[key] = _change(value, what, argument, whole)


def _change_everywhere(document: Any, old: str, new: str) -> None:
    """Replace a text by another one wherever it is a value, or the name of a member."""
    if isinstance(document, dict) and old in document:
        members = [(new if name == old else name, value) for name, value in document.items()]
        document.clear()
        document.update(members)
    for place, value in list(document.items() if isinstance(document, dict) else enumerate(document)):
        if isinstance(value, dict | list):
            _change_everywhere(value, old, new)
        elif type(value) is type(old) and value == old:
            document[place] = new


def _change(value: Any, what: str, argument: Any, whole: Any) -> Any:
    if what == "set":
        return argument
    if what == "raw":
        return RAW + argument
    if what == "insert" and isinstance(value, str):
        return value[: len(value) // 2] + argument + value[len(value) // 2 :]
    if what == "times" and isinstance(value, str | list):
        number = max(1, min(argument, LONGEST // max(1, len(json.dumps(value)))))
        # Copy the members, too: if they were shared, a change of one copy would change and perhaps lengthen all copies.
        return (
            value * number if isinstance(value, str) else [copy.deepcopy(one) for _ in range(number) for one in value]
        )
    if what == "nest":
        return RAW + "[" * argument + write_text(value) + "]" * argument
    if what == "again" and isinstance(value, dict) and value:
        name = next(iter(value))
        return RAW + write_text(value)[:-1] + f",{json.dumps(name)}:{write_text(argument)}}}"
    if what == "copy":
        return copy.deepcopy(find(whole, argument))
    return value


def write_text(document: Any) -> str:
    """Return the JSON text of a changed document on one line, strict except for values given as raw text."""
    text = json.dumps(document, separators=(",", ":"))
    mark = '"' + json.dumps(RAW)[1:-1]
    parts, start = [], 0
    while (found := text.find(mark, start)) >= 0:
        raw, end = json.JSONDecoder().raw_decode(text, found)
        parts += [text[start:found], raw[len(RAW) :]]
        start = end
    return "".join([*parts, text[start:]])


def draw_named(documents: Mapping[str, Any], largest: int = 3, times: Sequence[int] = TIMES) -> SearchStrategy[Any]:
    """Draw `[name of a document, changes of it]`."""
    return st.sampled_from(sorted(documents)).flatmap(
        lambda name: st.tuples(st.just(name), st.just([]) | draw_changes(documents[name], largest, times)).map(list)
    )
