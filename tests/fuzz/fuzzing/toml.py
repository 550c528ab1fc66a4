"""Write TOML documents, including changed ones. Values that TOML lacks are written wrongly on purpose."""

from __future__ import annotations

import json
import math
from typing import Any

from .mutation import RAW

__all__ = ["toml_text"]


def toml_text(document: Any) -> str:
    """Return the TOML text of a table whose values are values, tables, or lists of tables."""
    if not isinstance(document, dict):
        return _value(document)
    lines = [f"{_key(name)} = {_value(value)}" for name, value in document.items() if not _is_tables(value)]
    for name, value in document.items():
        if _is_tables(value):
            for table in value:
                lines += ["", f"[[{_key(name)}]]"]
                lines += [f"{_key(key)} = {_value(each)}" for key, each in table.items()]
    return "\n".join(lines) + "\n"


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, dict) for each in value)


def _key(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else _value(name)


def _value(value: Any) -> str:
    match value:
        case str() if value.startswith(RAW):
            return value[len(RAW) :]
        case str():
            return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        case float() if not math.isfinite(value):
            return str(value)
        case list():
            return "[" + ", ".join(map(_value, value)) + "]"
        case dict():
            return "{ " + ", ".join(f"{_key(key)} = {_value(each)}" for key, each in value.items()) + " }"
    return json.dumps(value)
