"""The messages between the suite and a host process: one JSON object a line, versioned.

========== ============== ===========================================================================
message    from           holds
========== ============== ===========================================================================
hello      suite          the protocol's version
about      host           framework, version, Python, platform, environment, subjects
failed     host           why the adapter could not start; the host then ends
call       suite          a number, the subject, the gradients, the options
reply      host           the number, the clipped gradients, the norm, the inputs afterwards
raised     host           the number, what the framework raised, the inputs afterwards
unsupported host          the number, what is missing
mistake    host           the number, the traceback of a fault of the adapter itself
bye        suite          nothing: the host ends
========== ============== ===========================================================================

Arrays are base64 of little-endian bytes with dtype and shape. A float option is `{"hex": "0x1p+0"}`, so that it reads
back exactly and NaN and infinities need no extension of JSON. `schemas/<message>.json` describes each message.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Dict, List, Mapping, Optional, Sequence

from .contract import About, Array, Call, Gradient, Reply, Subject

__all__ = [
    "PROTOCOL",
    "call_from_json",
    "call_to_json",
    "dumps",
    "reply_from_json",
    "reply_to_json",
    "subject_from_json",
    "subject_to_json",
]

PROTOCOL = 1


def dumps(message: Mapping[str, Any]) -> str:
    """One message as one line of strict JSON."""
    return json.dumps(message, separators=(",", ":"), allow_nan=False)


def value_to_json(value: Any) -> Any:
    """An option's value: floats as hex, whatever else JSON holds as it is."""
    return {"hex": float(value).hex()} if isinstance(value, float) else value


def value_from_json(value: Any) -> Any:
    """Undo :func:`value_to_json`."""
    return float.fromhex(value["hex"]) if isinstance(value, dict) else value


def array_to_json(array: Optional[Array]) -> Optional[Dict[str, Any]]:
    """An array, or None for a gradient that does not exist."""
    if array is None:
        return None
    return {"dtype": array.dtype, "shape": list(array.shape), "data": base64.b64encode(array.data).decode("ascii")}


def array_from_json(message: Optional[Mapping[str, Any]]) -> Optional[Array]:
    """Undo :func:`array_to_json`."""
    if message is None:
        return None
    return Array(message["dtype"], tuple(message["shape"]), base64.b64decode(message["data"], validate=True))


def arrays_to_json(arrays: Optional[Sequence[Optional[Array]]]) -> Optional[List[Optional[Dict[str, Any]]]]:
    """A list of arrays, or None where there is nothing to say."""
    return None if arrays is None else [array_to_json(array) for array in arrays]


def gradient_to_json(gradient: Gradient) -> Dict[str, Any]:
    """A gradient; what is at its default is left out."""
    message: Dict[str, Any] = {
        "name": gradient.name,
        "array": array_to_json(gradient.array),
        "need_clip": gradient.need_clip,
    }
    if gradient.layout != "contiguous":
        message["layout"] = gradient.layout
    if gradient.same_as is not None:
        message["same_as"] = gradient.same_as
    if gradient.rows is not None:
        message["rows"] = list(gradient.rows)
        message["height"] = gradient.height
    return message


def gradient_from_json(message: Mapping[str, Any]) -> Gradient:
    """Undo :func:`gradient_to_json`."""
    rows = message.get("rows")
    return Gradient(
        name=message["name"],
        array=array_from_json(message["array"]),
        need_clip=message["need_clip"],
        layout=message.get("layout", "contiguous"),
        same_as=message.get("same_as"),
        rows=None if rows is None else tuple(rows),
        height=message.get("height"),
    )


def call_to_json(call: Call, number: int) -> Dict[str, Any]:
    """The message of a call; the number comes back with its answer."""
    return {
        "message": "call",
        "number": number,
        "subject": call.subject,
        "gradients": [gradient_to_json(gradient) for gradient in call.gradients],
        "options": {name: value_to_json(value) for name, value in call.options.items()},
    }


def call_from_json(message: Mapping[str, Any]) -> Call:
    """Undo :func:`call_to_json`, less the number."""
    return Call(
        subject=message["subject"],
        gradients=tuple(gradient_from_json(gradient) for gradient in message["gradients"]),
        options={name: value_from_json(value) for name, value in message["options"].items()},
    )


def reply_to_json(reply: Reply, number: int) -> Dict[str, Any]:
    """The message of a reply; `malformed` is left out where there is nothing to say."""
    message: Dict[str, Any] = {
        "message": "reply",
        "number": number,
        "gradients": arrays_to_json(reply.gradients),
        "norm": array_to_json(reply.norm),
        "inputs": arrays_to_json(reply.inputs),
        "same_object": None if reply.same_object is None else list(reply.same_object),
        "warnings": list(reply.warnings),
    }
    if reply.malformed is not None:
        message["malformed"] = reply.malformed
    return message


def reply_from_json(message: Mapping[str, Any]) -> Reply:
    """Undo :func:`reply_to_json`, less the number."""
    inputs, same_object = message["inputs"], message["same_object"]
    return Reply(
        gradients=tuple(array_from_json(array) for array in message["gradients"]),
        norm=array_from_json(message["norm"]),
        inputs=None if inputs is None else tuple(array_from_json(array) for array in inputs),
        same_object=None if same_object is None else tuple(same_object),
        warnings=tuple(message["warnings"]),
        malformed=message.get("malformed"),
    )


def subject_to_json(subject: Subject) -> Dict[str, Any]:
    """A subject, as it stands in the message `about` and in the header of a record file."""
    formula = subject.formula
    return {
        "name": subject.name,
        "operation": subject.operation,
        "dtypes": list(subject.dtypes),
        "features": sorted(subject.features),
        "norm_types": [float(p).hex() for p in subject.norm_types],
        "formula": None if formula is None else {name: value_to_json(value) for name, value in formula.items()},
    }


def subject_from_json(message: Mapping[str, Any]) -> Subject:
    """Undo :func:`subject_to_json`."""
    formula = message["formula"]
    return Subject(
        name=message["name"],
        operation=message["operation"],
        dtypes=tuple(message["dtypes"]),
        features=tuple(message["features"]),
        norm_types=tuple(float.fromhex(p) for p in message["norm_types"]),
        formula=None if formula is None else {name: value_from_json(value) for name, value in formula.items()},
    )


def about_to_json(about: About, subjects: Sequence[Subject], python: str, platform: str) -> Dict[str, Any]:
    """The host's first message."""
    return {
        "message": "about",
        "protocol": PROTOCOL,
        "framework": about.framework,
        "version": about.version,
        "python": python,
        "platform": platform,
        "environment": dict(about.environment),
        "subjects": [subject_to_json(subject) for subject in subjects],
    }
