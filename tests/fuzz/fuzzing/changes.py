"""Change a valid JSON document at a few places. A document that is wrong in many places is refused at once."""

from __future__ import annotations

import copy
import json
import re
from collections.abc import Iterator, Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from .texts import draw_attacks, draw_json_values, draw_texts

#: The way to a value: names of members and places in lists.
Path = tuple[Any, ...]
#: A path, a way to change the value there, and an argument.
Change = tuple[Path, str, Any]

#: Numbers of repetitions. The largest exceed every sensible limit.
TIMES = (2, 3, 20, 200, 5_000, 200_000)
#: The number of characters to which a repetition may lengthen a value.
LONGEST = 20_000_000
#: The mark of a text that replaces its JSON, whether it is JSON or not.
RAW = "\ue000raw:"
RAW_VALUES = (
    *("NaN", "Infinity", "-Infinity", "1e999", "-0.0", "1e-99999", "nul", "[1,]", "{", '"', ""),
    "9" * 400,
    "9" * 5000,
    "[" * 450 + "]" * 450,
    "[" * 100_000 + "]" * 100_000,
    '{"a":' * 450 + "1" + "}" * 450,
    '{"a":1,"a":2}',
    '{"hex":"0x1p+99999"}',
    '"\\ud800"',
    '"\\u0000"',
)


def raw(text: str) -> str:
    """Return a value for which `write_json` writes the text as it is."""
    return RAW + text


def list_paths(document: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the path of each value of a document, first the path of the document itself."""
    yield path
    members = (
        document.items() if isinstance(document, dict) else enumerate(document) if isinstance(document, list) else ()
    )
    for step, value in members:
        yield from list_paths(value, (*path, step))


def find(document: Any, path: Path) -> Any:
    for step in path:
        document = document[step]
    return document


def draw_changes(document: Any, most: int = 3, times: Sequence[int] = TIMES) -> SearchStrategy[list[Change]]:
    """Draw changes of a document. One in three puts code or markup into a text, as a malicious record would."""
    anywhere, texts = _draw_paths(document, object), _draw_paths(document, str)
    values = draw_texts() | draw_json_values() | st.sampled_from(RAW_VALUES).map(raw)
    other = anywhere.map(lambda path: find(document, path))
    change = st.one_of(
        st.tuples(anywhere, st.just("set"), values | other),
        st.tuples(anywhere, st.just("drop"), st.none()),
        st.tuples(anywhere, st.just("add"), st.tuples(draw_texts(), draw_json_values())),
        st.tuples(anywhere, st.just("repeat"), st.sampled_from(times)),
        # If a list is short, few repetitions break no limit.
        st.tuples(_draw_paths(document, list), st.just("repeat"), st.just(2)),
        st.tuples(texts, st.sampled_from(("set", "insert")), draw_attacks()),
        # A name occurs in many places that must agree. If only one changed, the document would be refused.
        st.tuples(texts, st.just("rename"), draw_attacks()),
    )
    return st.lists(change, min_size=1, max_size=most)


def _draw_paths(document: Any, kind: type) -> SearchStrategy[Path]:
    """Draw the path of a value of a type. Each kind of place is equally likely, however often it occurs."""
    kinds: dict[Path, list[Path]] = {}
    for path in list_paths(document):
        if isinstance(find(document, path), kind):
            kinds.setdefault(tuple(step if isinstance(step, str) else "" for step in path), []).append(path)
    return st.sampled_from(sorted(kinds.values(), key=len) or [[()]]).flatmap(st.sampled_from)


def apply_changes(document: Any, changes: Sequence[Change]) -> Any:
    """Return a changed copy of a document. A change whose place no longer exists is left out."""
    holder = [copy.deepcopy(document)]
    for path, how, argument in changes:
        *above, key = 0, *path
        try:
            parent = find(holder, tuple(above))
            if how == "rename":
                holder = _rename(holder, parent[key], argument)
            elif how == "drop":
                del parent[key]
            else:
                parent[key] = _change(parent[key], how, argument)
        except (KeyError, IndexError, TypeError):
            continue
    return holder[0] if holder else None


def _change(value: Any, how: str, argument: Any) -> Any:
    match how, value:
        case "set", _:
            return copy.deepcopy(argument)
        case "insert", str():
            return value[: len(value) // 2] + argument + value[len(value) // 2 :]
        case "add", dict():
            return {**value, argument[0]: argument[1]}
        case "add", list():
            return [*value, argument[1]]
        case "repeat", str() | list():
            times = max(1, min(argument, LONGEST // max(1, len(json.dumps(value)))))
            # If copies shared their members, a later change of one would change, and perhaps lengthen, all of them.
            return (
                value * times if isinstance(value, str) else [copy.deepcopy(one) for _ in range(times) for one in value]
            )
    return value


def _rename(document: Any, old: Any, new: str) -> Any:
    if isinstance(document, dict):
        return {_rename(name, old, new): _rename(value, old, new) for name, value in document.items()}
    if isinstance(document, list):
        return [_rename(value, old, new) for value in document]
    return new if isinstance(document, str) and document == old else document


def write_json(document: Any) -> str:
    """Return the JSON text of a changed document on one line, strict except for raw values."""
    text = json.dumps(document, separators=(",", ":"))
    mark = json.dumps(RAW)[1:-1].replace("\\", "\\\\")
    return re.sub(rf'"{mark}((?:[^"\\]|\\.)*)"', lambda found: str(json.loads(f'"{found[1]}"')), text)
