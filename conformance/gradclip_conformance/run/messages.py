"""Parse the lines that a host sends, and check them against the schemas of messages."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import gradclip_adapters
from gradclip_adapters import registry, wire
from gradclip_adapters.contract import Array, Call, EntryPoint
from gradclip_adapters.limits import parse_message
from gradclip_reports.schema import find_violation

from ..judge.model import Answer, Died, Mistaken, NotSupported, Raised, Replied
from ..oracle.formula import Formula

SCHEMAS = Path(gradclip_adapters.__file__).parent / "schemas"
SHOWN_CHARACTERS = 120


def read_message(line: str) -> dict[str, Any]:
    """Return the message that a line holds.

    Raises
    ------
    ValueError
        If the line exceeds a limit, or is not a message that satisfies its schema; the text names one fault.
    """
    message = parse_message(line)
    kind = message.get("message")
    if not isinstance(kind, str) or kind not in _list_kinds():
        msg = f"it has no known `message`: {line.strip()[:SHOWN_CHARACTERS]!r}"
        raise ValueError(msg)
    violation = find_violation(message, SCHEMAS / f"{kind}.json")
    if violation:
        raise ValueError(violation)
    return message


def read_notice(line: str, *kinds: str) -> dict[str, Any] | None:
    """Return the message that a line holds if it is of one of these kinds, or None if it holds anything else."""
    try:
        message = read_message(line)
    except ValueError:
        return None
    return message if message["message"] in kinds else None


def read_start(line: str) -> str | None:
    """Return "starting" or "started" if a line holds such a message, or None if it holds anything else."""
    # An answer may be long. It is parsed once.
    notice = read_notice(line, "starting", "started") if len(line) <= SHOWN_CHARACTERS else None
    return None if notice is None else notice["message"]


def name_what_is_loaded(loading: Mapping[str, Any]) -> str:
    """Return what a host loads, as a user names it."""
    target = str(loading["target"])
    kind = registry.find_kind(target)
    return (
        f"the module {target.rpartition(':')[0]}"
        if kind == "function"
        else f"the {'file' if kind == 'file' else 'adapter'} {target}"
    )


def check_formulas(entry_points: Iterable[EntryPoint]) -> None:
    """Check the formulas that entry points declare, before a formula judges any cell.

    Raises
    ------
    ValueError
        If an entry point declares something else; the text names the entry point.
    """
    for entry_point in entry_points:
        if entry_point.formula is None:
            continue
        try:
            Formula.of(entry_point.formula)
        except ValueError as error:
            msg = f"the entry point {entry_point.name!r} declares an invalid formula: {error}"
            raise ValueError(msg) from error


def read_answer(line: str, number: int, call: Call) -> Answer:
    """Return the answer that a line holds, or `Died` if the line is not an answer."""
    try:
        message = read_message(line)
        if message.get("number") != number:
            return Died(f"The host answered call {message.get('number')} when it was asked call {number}.")
        match message["message"]:
            case "reply":
                reply = wire.decode_reply(message, call)
                _check_inputs(reply.inputs, call)
                return Replied(reply)
            case "raised":
                inputs = message["inputs"]
                arrays = None if inputs is None else tuple(wire.decode_array(array) for array in inputs)
                _check_inputs(arrays, call)
                return Raised(message["kind"], message["text"], arrays, tuple(message.get("disturbed", ())))
            case "unsupported":
                return NotSupported(message["text"], message.get("kind", "adapter"))
            case "mistake":
                return Mistaken(message["text"])
            case other:
                return Died(f"The host sent a message of the kind {other!r}, which is not an answer.")
    except ValueError as error:
        return Died(f"The host's answer is not a message: {error}")


def _check_inputs(inputs: Sequence[Array | None] | None, call: Call) -> None:
    """Refuse a reply that does not have as many `inputs` as the call had gradients."""
    if inputs is not None and len(inputs) != len(call.gradients):
        msg = f"{len(inputs)} `inputs` for a call of {len(call.gradients)} gradients"
        raise ValueError(msg)


@functools.cache
def _list_kinds() -> frozenset[str]:
    return frozenset(path.stem for path in SCHEMAS.glob("*.json"))
