"""Lines that should be messages, held against their schemas; what is wrong with one is said in one sentence."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import gradclip_adapters

if TYPE_CHECKING:
    import jsonschema

__all__ = ["SCHEMAS", "message_of"]

SCHEMAS = Path(gradclip_adapters.__file__).parent / "schemas"
SHOWN_CHARACTERS = 120


def message_of(line: str) -> dict[str, Any]:
    """The message that a line holds, as its schema says.

    Raises
    ------
    ValueError
        When it holds none; the text is the first thing that is wrong.
    """
    shown = repr(line.strip()[:SHOWN_CHARACTERS])
    try:
        message = json.loads(line)
    except (ValueError, RecursionError) as error:
        msg = f"not JSON: {shown}"
        raise ValueError(msg) from error
    kind = message.get("message") if isinstance(message, dict) else None
    if not isinstance(kind, str) or not kind.isidentifier() or not _path(kind).exists():
        msg = f"no known `message` in it: {shown}"
        raise ValueError(msg)
    import jsonschema

    wrong = jsonschema.exceptions.best_match(_validator(kind).iter_errors(message))
    if wrong is not None:
        msg = f"{wrong.json_path}: {wrong.message[:SHOWN_CHARACTERS]}"
        raise ValueError(msg)
    return cast("dict[str, Any]", message)


def _path(kind: str) -> Path:
    return SCHEMAS / f"{kind}.json"


@functools.cache
def _validator(kind: str) -> jsonschema.Draft202012Validator:
    import jsonschema

    return jsonschema.Draft202012Validator(json.loads(_path(kind).read_text(encoding="utf-8")))
