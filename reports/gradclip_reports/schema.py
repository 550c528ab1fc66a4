"""Check documents against JSON Schemas."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from .limits import shorten

#: The greatest length of a message, and of a value in it.
_LENGTH = 200


def find_violation(document: Any, schema: Path) -> str:
    """Return what violates a JSON Schema first, such as `$.ulp must be number, got 'a'`, or an empty text.

    Raises
    ------
    ModuleNotFoundError
        If the package fastjsonschema is not installed.
    """
    check, error = _compile(schema)
    try:
        check(document)
    except error as violation:
        # The package calls the document `data`.
        message = "$" + str(violation).removeprefix("data")
        value = violation.value
        is_short = value is None or isinstance(value, (str, int, float))
        return shorten(message, _LENGTH) + (f", got {shorten(repr(value), _LENGTH)}" if is_short else "")
    return ""


@functools.cache
def _compile(schema: Path) -> tuple[Callable[[Any], object], Any]:
    try:
        import fastjsonschema
    except ModuleNotFoundError as error:
        message = "Schemas are checked by the package fastjsonschema: install gradclip-spec[check]."
        raise ModuleNotFoundError(message, name="fastjsonschema") from error
    # The package would decode base64 to check it. Whoever reads the data does so, too.
    known = json.loads(schema.read_text(encoding="utf-8"), object_hook=_leave_out_encoding)
    # The check must not write defaults into the document.
    check = fastjsonschema.compile(known, use_default=False)
    return check, fastjsonschema.JsonSchemaValueException


def _leave_out_encoding(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if name != "contentEncoding"}
