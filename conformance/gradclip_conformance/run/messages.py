"""Parse the lines that a host sends, and check them against the schemas of messages."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gradclip_adapters
from gradclip_adapters.contract import Subject
from gradclip_adapters.limits import parse_message

from ..oracle.formula import Formula

if TYPE_CHECKING:
    import jsonschema

__all__ = ["SCHEMAS", "check_formulas", "message_of"]

SCHEMAS = Path(gradclip_adapters.__file__).parent / "schemas"
SHOWN_CHARACTERS = 120


def message_of(line: str) -> dict[str, Any]:
    """Return the message that a line holds.

    Raises
    ------
    ValueError
        When the line exceeds a limit, or is not a message that satisfies its schema; the text names one fault.
    """
    message = parse_message(line)
    kind = message.get("message")
    if not isinstance(kind, str) or kind not in _kinds():
        msg = f"no known `message` in it: {line.strip()[:SHOWN_CHARACTERS]!r}"
        raise ValueError(msg)
    import jsonschema

    wrong = jsonschema.exceptions.best_match(_validator(kind).iter_errors(message))
    if wrong is not None:
        msg = f"{wrong.json_path}: {wrong.message[:SHOWN_CHARACTERS]}"
        raise ValueError(msg)
    return message


def check_formulas(subjects: Iterable[Subject]) -> None:
    """Check the formulas that subjects declare, before any cell is judged by one.

    Raises
    ------
    ValueError
        When one is no formula; the text names the subject.
    """
    for subject in subjects:
        if subject.formula is None:
            continue
        try:
            Formula.of(subject.formula)
        except ValueError as error:
            msg = f"the subject {subject.name!r} declares no formula that can be judged by: {error}"
            raise ValueError(msg) from error


@functools.cache
def _kinds() -> frozenset[str]:
    return frozenset(path.stem for path in SCHEMAS.glob("*.json"))


@functools.cache
def _validator(kind: str) -> jsonschema.Draft202012Validator:
    import jsonschema

    return jsonschema.Draft202012Validator(json.loads((SCHEMAS / f"{kind}.json").read_text(encoding="utf-8")))
