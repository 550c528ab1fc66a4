"""Convert the messages between the suite and a host process: one JSON object in each line, with a version.

========== ============== ===========================================================================
message    from           holds
========== ============== ===========================================================================
hello      suite          the protocol's version
loading    host           the target whose code is run next, Python, platform
about      host           framework, version, Python, platform, environment, subjects
failed     host           why the adapter could not start; the host then ends
call       suite          a number, the subject, the gradients, the options
reply      host           the number, the clipped gradients, the norm, the inputs afterwards
raised     host           the number, what the framework raised, the inputs afterwards
unsupported host          the number, what is missing, the kind (`contract.LACKS`; without one, "adapter")
mistake    host           the number, the traceback of a fault of the adapter itself
bye        suite          nothing: the host ends
========== ============== ===========================================================================

Arrays are base64 of little-endian bytes, with dtype and shape. An array of a call may be a recipe (see `recipes`), if
the host's `about` says that it knows them. An array of the reply may then say that it is the `same` as an array of the
call, or as the result at its place. A float option is `{"hex": "0x1p+0"}`. This form reads back exactly, and needs no
extension of JSON for NaN and infinities. `schemas/<message>.json` describes each message.
"""

from __future__ import annotations

import base64
import json
from typing import Any, Dict, List, Mapping, Optional, Sequence, Tuple

from . import recipes
from .contract import DTYPES, About, Array, BadDeclaration, BadReply, Call, Gradient, Reply, Subject
from .limits import AXES, HEX, LENGTH, RECIPE, WARNINGS, check_limit, shorten

__all__ = [
    "PROTOCOL",
    "about_from_json",
    "about_to_json",
    "array_from_json",
    "arrays_to_json",
    "call_from_json",
    "call_to_json",
    "check_reply",
    "check_subjects",
    "dumps",
    "reply_from_json",
    "reply_to_json",
    "subject_from_json",
    "subject_to_json",
]

PROTOCOL = 1


def dumps(message: Mapping[str, Any]) -> str:
    """Return one message as one line of strict JSON."""
    return json.dumps(message, separators=(",", ":"), allow_nan=False)


def value_to_json(value: Any) -> Any:
    """Return an option's value for JSON: a float as hexadecimal text, any other value as it is."""
    return {"hex": float(value).hex()} if isinstance(value, float) else value


def value_from_json(value: Any) -> Any:
    """Undo :func:`value_to_json`.

    Raises
    ------
    ValueError
        If the text of a float is too long, not hexadecimal, or beyond the range of float64.
    """
    return _float_from_hex(value["hex"]) if isinstance(value, dict) else value


def _float_from_hex(text: Any) -> float:
    if not isinstance(text, str):
        message = "a hexadecimal float must be a text, not {!r:.40}".format(text)
        raise ValueError(message)
    check_limit(HEX, len(text))
    try:
        return float.fromhex(text)
    except OverflowError as error:
        message = "the hexadecimal float {!r} is beyond the range of float64".format(text)
        raise ValueError(message) from error


def array_to_json(array: Optional[Array]) -> Optional[Dict[str, Any]]:
    """Return the message of an array, or None for a gradient that does not exist."""
    if array is None:
        return None
    return {"dtype": array.dtype, "shape": list(array.shape), "data": base64.b64encode(array.data).decode("ascii")}


def _small_array_to_json(array: Optional[Array], others: Mapping[str, Optional[Array]]) -> Optional[Dict[str, Any]]:
    """Return the message of an array of a reply: only the name of an equal array of the call or the reply, if any."""
    for name, other in others.items():
        if array is not None and other is not None and array == other:
            return {"same": name}
    return array_to_json(array)


def array_from_json(message: Optional[Mapping[str, Any]]) -> Optional[Array]:
    """Undo :func:`array_to_json`.

    The shape is checked before the data, and the length of the data before they are decoded.

    Raises
    ------
    ValueError
        If the shape is not valid, or the data do not have the length that the shape needs.
    """
    if message is None:
        return None
    dtype, shape = message["dtype"], _shape_from_json(message["shape"])
    if "recipe" in message:
        recipe = recipes.from_json(message["recipe"])
        check_limit(RECIPE, _byte_count(shape, dtype))
        return Array(dtype, shape, recipes.expand(recipe, dtype, shape), recipe)
    text = message["data"]
    if dtype in DTYPES:
        expected = _byte_count(shape, dtype)
        if len(text) != 4 * ((expected + 2) // 3):
            found = "{} bytes, more or less,".format(len(text) // 4 * 3)
            raise ValueError(_wrong_length(found, shape, dtype, expected))
    data = base64.b64decode(text, validate=True)
    if dtype in DTYPES and len(data) != expected:
        raise ValueError(_wrong_length("{} bytes".format(len(data)), shape, dtype, expected))
    return Array(dtype, shape, data)


def _shape_from_json(lengths: Any) -> Tuple[int, ...]:
    check_limit(AXES, len(lengths))
    for length in lengths:
        # In Python, a boolean is an integer.
        if type(length) is not int or length < 0:
            message = "{!r:.40} is not the length of an axis".format(length)
            raise ValueError(message)
        check_limit(LENGTH, length)
    return tuple(lengths)


def _byte_count(shape: Sequence[int], dtype: str) -> int:
    count = int(DTYPES[dtype][-1])
    for length in shape:
        count *= length
    return count


def _wrong_length(found: str, shape: Sequence[int], dtype: str, expected: int) -> str:
    return "{} for shape {} of {}, which takes {}".format(found, tuple(shape), dtype, expected)


def arrays_to_json(arrays: Optional[Sequence[Optional[Array]]]) -> Optional[List[Optional[Dict[str, Any]]]]:
    """Return the messages of a list of arrays; None stays None."""
    return None if arrays is None else [array_to_json(array) for array in arrays]


def gradient_to_json(gradient: Gradient, by_recipe: bool = False) -> Dict[str, Any]:
    """Return the message of a gradient, without default values."""
    array = gradient.array
    made: Optional[Dict[str, Any]]
    if by_recipe and array is not None and array.recipe is not None:
        made = {"dtype": array.dtype, "shape": list(array.shape), "recipe": recipes.to_json(array.recipe)}
    else:
        made = array_to_json(array)
    message: Dict[str, Any] = {
        "name": gradient.name,
        "array": made,
        "need_clip": gradient.need_clip,
    }
    if gradient.layout != "contiguous":
        message["layout"] = gradient.layout
    if gradient.same_as is not None:
        message["same_as"] = gradient.same_as
    if gradient.rows is not None:
        message["rows"] = list(gradient.rows)
        message["height"] = gradient.height
    if gradient.group:
        message["group"] = gradient.group
    if gradient.cotangent is not None:
        message["cotangent"] = array_to_json(gradient.cotangent)
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
        group=message.get("group", 0),
        cotangent=array_from_json(message.get("cotangent")),
    )


def call_to_json(call: Call, number: int, by_recipe: bool = False) -> Dict[str, Any]:
    """Return the message of a call; the number comes back with its answer.

    With `by_recipe`, send the recipes of arrays and not their data. Use it only for a host that knows the recipes.
    """
    return {
        "message": "call",
        "number": number,
        "subject": call.subject,
        "gradients": [gradient_to_json(gradient, by_recipe) for gradient in call.gradients],
        "options": {name: value_to_json(value) for name, value in call.options.items()},
    }


def call_from_json(message: Mapping[str, Any]) -> Call:
    """Undo :func:`call_to_json`, without the number."""
    return Call(
        subject=message["subject"],
        gradients=tuple(gradient_from_json(gradient) for gradient in message["gradients"]),
        options={name: value_from_json(value) for name, value in message["options"].items()},
    )


def reply_to_json(reply: Reply, number: int, call: Optional[Call] = None) -> Dict[str, Any]:
    """Return the message of a reply; leave out `malformed` if it is None.

    If `call` is given and its gradients came as recipes, an array that equals the passed gradient or the result is not
    sent again.

    Raises
    ------
    BadReply
        If it is not a reply, or holds something other than arrays.
    """
    check_reply(reply)
    given = [gradient.array for gradient in call.gradients] if call is not None and _came_by_recipe(call) else []
    message: Dict[str, Any] = {
        "message": "reply",
        "number": number,
        "gradients": _results_to_json(reply.gradients, given),
        "norm": array_to_json(reply.norm),
        "inputs": None if reply.inputs is None else _inputs_to_json(reply.inputs, reply.gradients, given),
        "same_object": None if reply.same_object is None else list(reply.same_object),
        "warnings": [shorten(text) for text in reply.warnings[: WARNINGS.number]],
    }
    if reply.malformed is not None:
        message["malformed"] = shorten(reply.malformed)
    for name, texts in (("shared", reply.shared), ("disturbed", reply.disturbed)):
        if texts is not None:
            message[name] = [shorten(text) for text in texts[: WARNINGS.number]]
    return message


def _came_by_recipe(call: Call) -> bool:
    return any(gradient.array is not None and gradient.array.recipe is not None for gradient in call.gradients)


def _results_to_json(
    results: Sequence[Optional[Array]], given: Sequence[Optional[Array]]
) -> List[Optional[Dict[str, Any]]]:
    if len(results) != len(given):
        return [array_to_json(array) for array in results]
    return [_small_array_to_json(array, {"call": one}) for array, one in zip(results, given)]


def _inputs_to_json(
    inputs: Sequence[Optional[Array]], results: Sequence[Optional[Array]], given: Sequence[Optional[Array]]
) -> List[Optional[Dict[str, Any]]]:
    if not len(inputs) == len(results) == len(given):
        return [array_to_json(array) for array in inputs]
    return [
        _small_array_to_json(array, {"call": one, "result": other}) for array, one, other in zip(inputs, given, results)
    ]


def check_reply(reply: Any) -> None:
    """Refuse a reply that breaks the contract, with a sentence for the adapter's author.

    Raises
    ------
    BadReply
        If the reply breaks the contract.
    """
    if not isinstance(reply, Reply):
        text = "`call` must return a gradclip_adapters.contract.Reply, and returned a {}".format(_type_name(reply))
        raise BadReply(text)
    _check_arrays("gradients", reply.gradients)
    _check_array("norm", reply.norm)
    if reply.inputs is not None:
        _check_arrays("inputs", reply.inputs)
    if reply.same_object is not None:
        _check_items("same_object", reply.same_object, bool)
    _check_items("warnings", reply.warnings, str)
    _check_items("shared", reply.shared or (), str)
    _check_items("disturbed", reply.disturbed or (), str)
    if not isinstance(reply.malformed, (str, type(None))):
        text = "Reply.malformed is a {}, and must be a text or None".format(_type_name(reply.malformed))
        raise BadReply(text)


def _check_arrays(field: str, arrays: Any) -> None:
    if not isinstance(arrays, (list, tuple)):
        text = "Reply.{} is a {}, and must be a tuple of Array or None".format(field, _type_name(arrays))
        raise BadReply(text)
    for place, array in enumerate(arrays):
        _check_array("{}[{}]".format(field, place), array)


def _check_array(field: str, array: Any) -> None:
    if not isinstance(array, (Array, type(None))):
        text = "Reply.{} is a {}; wrap it: Array.of(...)".format(field, _type_name(array))
        raise BadReply(text)


def _check_items(field: str, items: Any, kind: type) -> None:
    if not isinstance(items, (list, tuple)) or not all(isinstance(item, kind) for item in items):
        text = "Reply.{} must be a tuple of {}, not {:.100}".format(field, kind.__name__, repr(items))
        raise BadReply(text)


def _type_name(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else "{}.{}".format(kind.__module__, kind.__name__)


def reply_from_json(message: Mapping[str, Any], call: Optional[Call] = None) -> Reply:
    """Undo :func:`reply_to_json`, without the number.

    Raises
    ------
    ValueError
        If an array is not valid, or names an array that does not exist.
    """
    inputs, same_object = message["inputs"], message["same_object"]
    given = [] if call is None else [gradient.array for gradient in call.gradients]
    results = tuple(_named_array(array, place, {"call": given}) for place, array in enumerate(message["gradients"]))
    named = {"call": given, "result": results}
    return Reply(
        gradients=results,
        norm=array_from_json(message["norm"]),
        inputs=None if inputs is None else tuple(_named_array(array, i, named) for i, array in enumerate(inputs)),
        same_object=None if same_object is None else tuple(same_object),
        warnings=tuple(message["warnings"]),
        malformed=message.get("malformed"),
        shared=None if message.get("shared") is None else tuple(message["shared"]),
        disturbed=None if message.get("disturbed") is None else tuple(message["disturbed"]),
    )


def _named_array(
    message: Optional[Mapping[str, Any]], place: int, named: Mapping[str, Sequence[Optional[Array]]]
) -> Optional[Array]:
    """Return the array of a message. If the message names other arrays, return the one at the same place among them."""
    if message is None or "same" not in message:
        return array_from_json(message)
    others = named.get(message["same"], ())
    if place >= len(others) or others[place] is None:
        text = "there is no array {!r:.20} at the place {}".format(message["same"], place)
        raise ValueError(text)
    return others[place]


def subject_to_json(subject: Subject) -> Dict[str, Any]:
    """Return the message of a subject, for `about` and for the header of a record."""
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
        norm_types=tuple(_float_from_hex(p) for p in message["norm_types"]),
        formula=None if formula is None else {name: value_from_json(value) for name, value in formula.items()},
    )


def about_to_json(about: About, subjects: Sequence[Subject], python: str, platform: str) -> Dict[str, Any]:
    """Return the host's first message."""
    return {
        "message": "about",
        "protocol": PROTOCOL,
        "framework": about.framework,
        "version": about.version,
        "python": python,
        "platform": platform,
        "recipes": recipes.VERSION,
        "environment": dict(about.environment),
        "subjects": [subject_to_json(subject) for subject in check_subjects(subjects)],
    }


def about_from_json(message: Mapping[str, Any]) -> Tuple[About, Tuple[Subject, ...]]:
    """Undo :func:`about_to_json`, without the Python and the platform.

    Raises
    ------
    ValueError
        If the contract does not know a word, or if two subjects have the same name.
    """
    about = About(message["framework"], message["version"], dict(message["environment"]))
    return about, check_subjects([subject_from_json(subject) for subject in message["subjects"]])


def check_subjects(subjects: Sequence[Subject]) -> Tuple[Subject, ...]:
    """Return the subjects of an adapter, after checking that no two have the same name.

    Raises
    ------
    BadDeclaration
        If two subjects have the same name, or if one of them is not a `Subject`.
    """
    seen = set()
    for subject in subjects:
        if not isinstance(subject, Subject):
            text = "`subjects` must return Subject objects, and returned a {}".format(_type_name(subject))
            raise BadDeclaration(text)
        if subject.name in seen:
            text = "The subject {!r} is declared twice; give each subject its own name.".format(subject.name)
            raise BadDeclaration(text)
        seen.add(subject.name)
    return tuple(subjects)
