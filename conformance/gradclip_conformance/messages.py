"""What is wrong with a line that should have been a message, said in one sentence."""

from __future__ import annotations

import json
from pathlib import Path

import gradclip_adapters

__all__ = ["SCHEMAS", "explain"]

SCHEMAS = Path(gradclip_adapters.__file__).parent / "schemas"
SHOWN_CHARACTERS = 120


def explain(line: str) -> str:
    """The first thing by which a line fails the schema of its message, or that it is not JSON."""
    shown = repr(line.strip()[:SHOWN_CHARACTERS])
    try:
        message = json.loads(line)
    except ValueError:
        return f"not JSON: {shown}"
    kind = message.get("message") if isinstance(message, dict) else None
    path = SCHEMAS / f"{kind}.json"
    if not isinstance(kind, str) or not kind.isidentifier() or not path.exists():
        return f"no known `message` in it: {shown}"
    import jsonschema

    validator = jsonschema.Draft202012Validator(json.loads(path.read_text(encoding="utf-8")))
    error = jsonschema.exceptions.best_match(validator.iter_errors(message))
    if error is None:
        return f"an array's bytes do not fit its shape, or a value cannot be read: {shown}"
    return f"{error.json_path}: {error.message[:SHOWN_CHARACTERS]}"
