"""Write entries of a file of known failures as TOML."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any

import tomlkit
from tomlkit.items import Array, InlineTable, Table

from gradclip_reports.values import escape_line

from ..causes.findings import find_origin
from ..oracle.formula import Formula
from .known_causes import KnownCause
from .pins import Deviation

__all__ = ["write_comment", "write_known_entry", "write_pin"]


def write_comment(text: str) -> str:
    """Return a text as a comment on one line. Text after a line break would be TOML."""
    return f"# {escape_line(text)}"


def write_known_entry(parts: Sequence[KnownCause]) -> str:
    """Return the text of an entry. The entry holds the values that all parts share, and each part the others."""
    first = parts[0]
    own = {name for name in SHARED if len({getattr(part, name) for part in parts}) > 1}
    table = tomlkit.table()
    table.add("cause", tomlkit.string(first.cause if "cause" not in own else find_origin(first.cause)))
    if len(parts) == 1:
        _add_parameters(table, first)
    _add_fields(table, first, [name for name in SHARED if name not in own])
    if len(parts) > 1:
        tables = tomlkit.aot()
        for part in parts:
            inner = tomlkit.table()
            if "cause" in own:
                inner.add("cause", tomlkit.string(part.cause))
            _add_parameters(inner, part)
            _add_fields(inner, part, [name for name in SHARED if name in own])
            tables.append(inner)
        table.add("parts", tables)
    document = tomlkit.document()
    entries = tomlkit.aot()
    entries.append(table)
    document.add("known", entries)
    return tomlkit.dumps(document).strip("\n")


#: The fields that an entry and its parts may share, in the order in which they are written. `cause` is written first.
SHARED = ("cause", "subjects", "rules", "versions", "platforms", "devices", "reason", "url", "checked")
#: The fields that are written even if they are empty, so that somebody fills them.
ALWAYS = ("subjects", "reason", "url", "checked")


def _add_parameters(table: Table, one: KnownCause) -> None:
    if one.parameters:
        inline = tomlkit.inline_table()
        inline.update({name: values[0] if len(values) == 1 else list(values) for name, values in one.parameters})
        table.add("parameters", inline)


def _add_fields(table: Table, one: KnownCause, names: Iterable[str]) -> None:
    for name in names:
        value: Any = getattr(one, name)
        if name != "cause" and (name in ALWAYS or value != KnownCause.__dataclass_fields__[name].default):
            table.add(name, _make_array(value) if isinstance(value, tuple) else tomlkit.string(value))


def write_pin(pin: Deviation) -> str:
    """Return the text of a pin."""
    table = tomlkit.table()
    table.add("subjects", _make_array(pin.subjects))
    table.add("cases", _make_array(pin.cases))
    for field in fields(Deviation):
        value = getattr(pin, field.name)
        if field.name in ("subjects", "cases") or value == field.default:
            continue
        table.add(field.name, _make_inline(value) if isinstance(value, Formula) else tomlkit.string(value))
    document = tomlkit.document()
    pins = tomlkit.aot()
    pins.append(table)
    document.add("deviation", pins)
    return tomlkit.dumps(document).strip("\n")


def _make_inline(formula: Formula) -> InlineTable:
    inline = tomlkit.inline_table()
    inline.update(formula.to_mapping())
    return inline


def _make_array(values: Iterable[str]) -> Array:
    """Return names as an array, one name in each line."""
    array = tomlkit.array()
    for value in values:
        array.add_line(tomlkit.string(value), indent="  ")
    array.add_line(indent="")
    return array
