"""Write TOML documents, including changed ones. Values that TOML lacks are written wrongly on purpose."""

from __future__ import annotations

import json
import math
from typing import Any

from .mutation import RAW

__all__ = ["write_toml"]


def write_toml(document: Any) -> str:
    """Return the TOML text of a table whose members are values, tables, or lists of tables."""
    if not isinstance(document, dict):
        return _write_value(document)
    lines = [f"{_write_key(name)} = {_write_value(value)}" for name, value in document.items() if not _is_tables(value)]
    for name, value in document.items():
        if _is_tables(value):
            for table in value:
                lines += ["", f"[[{_write_key(name)}]]"]
                lines += [f"{_write_key(key)} = {_write_value(each)}" for key, each in table.items()]
    return "\n".join(lines) + "\n"


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def _write_key(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else _write_value(name)


def _write_value(value: Any) -> str:
    match value:
        case str() if value.startswith(RAW):
            return value[len(RAW) :]
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case float() if not math.isfinite(value):
            return str(value)
        case list():
            return "[" + ", ".join(map(_write_value, value)) + "]"
        case dict():
            return "{ " + ", ".join(f"{_write_key(key)} = {_write_value(each)}" for key, each in value.items()) + " }"
    return json.dumps(value)
