"""Convert the messages between the suite and a host process: one JSON object in each line, with a version.

=========== ============== ===========================================================================
message     from           holds
=========== ============== ===========================================================================
hello       suite          the protocol's version
loading     host           the target whose code is run next, Python, platform
about       host           framework, version, Python, platform, environment, entry points
failed      host           why the adapter could not start; the host then ends
call        suite          a number, the entry point, the gradients, the options
starting    host           nothing: until `started`, the call's time stands still
started     host           nothing: its processes have started, or could not
reply       host           the number, the clipped gradients, the norm, the inputs afterwards
raised      host           the number, what the framework raised, the inputs afterwards
unsupported host           the number, what is missing, the kind (`contract.LACKS`; without one, "adapter")
mistake     host           the number, the traceback of a fault of the adapter itself
bye         suite          nothing: the host ends
=========== ============== ===========================================================================

Arrays are base64 of little-endian bytes, with dtype and shape. An array of a call may be a recipe (see `recipes`), if
the host's `about` says that it knows them. A reply may say that arrays are the `same` as those of the call, or as the
results at their places, and send short arrays of one dtype in one block. A float option is `{"hex": "0x1p+0"}`.
This form reads back exactly, and needs no extension of JSON for NaN and infinities. `schemas/<message>.json` describes
each message.
"""

from __future__ import annotations

import base64
import itertools
import json
from functools import lru_cache
from typing import Any, Iterator, Mapping, Sequence

from . import recipes
from .contract import DTYPES, About, Array, BadDeclaration, BadReply, Call, EntryPoint, Gradient, Reply
from .limits import AXES, GRADIENTS, HEX, LENGTH, RECIPE, WARNINGS, check_limit, shorten

__all__ = [
    "PROTOCOL",
    "check_entry_points",
    "check_reply",
    "decode_about",
    "decode_array",
    "decode_call",
    "decode_entry_point",
    "decode_reply",
    "dumps",
    "encode_about",
    "encode_arrays",
    "encode_call",
    "encode_entry_point",
    "encode_reply",
]

PROTOCOL = 1

#: Arrays of at most this many bytes are sent as one block.
SHORT = 1 << 13


def dumps(message: Mapping[str, Any]) -> str:
    """Return one message as one line of strict JSON."""
    return json.dumps(message, separators=(",", ":"), allow_nan=False)


def encode_value(value: Any) -> Any:
    """Return an option's value for JSON: a float as hexadecimal text, any other value as it is."""
    return {"hex": float(value).hex()} if isinstance(value, float) else value


def decode_value(value: Any) -> Any:
    """Undo :func:`encode_value`.

    Raises
    ------
    ValueError
        If the text of a float is too long, not hexadecimal, or beyond the range of float64.
    """
    return _decode_float(value["hex"]) if isinstance(value, dict) else value


def _decode_float(text: Any) -> float:
    if not isinstance(text, str):
        message = f"a hexadecimal float must be a text, not {text!r:.40}"
        raise ValueError(message)
    check_limit(HEX, len(text))
    try:
        return float.fromhex(text)
    except OverflowError as error:
        message = f"the hexadecimal float {text!r} is beyond the range of float64"
        raise ValueError(message) from error


def encode_array(array: Array | None, by_recipe: bool = False) -> dict[str, Any] | None:
    """Return the message of an array, or None for a gradient that does not exist."""
    if array is None:
        return None
    if by_recipe and array.recipe is not None:
        return {"dtype": array.dtype, "shape": list(array.shape), "recipe": recipes.encode_recipe(array.recipe)}
    return {"dtype": array.dtype, "shape": list(array.shape), "data": base64.b64encode(array.data).decode("ascii")}


def _encode_in_runs(
    arrays: Sequence[Array | None], named: Mapping[str, Sequence[Array | None]]
) -> list[dict[str, Any] | None]:
    """Return the messages of the arrays of a reply: one message for each run of neighbours that are alike.

    If arrays equal others at their places, the name of the others is sent. Short arrays of one dtype are one block.
    """
    if any(len(others) != len(arrays) for others in named.values()):
        return [encode_array(array) for array in arrays]
    messages: list[dict[str, Any] | None] = []
    kinds = [
        _find_kind(array, {name: others[place] for name, others in named.items()}) for place, array in enumerate(arrays)
    ]
    for (is_name, word), places in itertools.groupby(range(len(arrays)), key=kinds.__getitem__):
        run = [arrays[place] for place in places]
        if is_name:
            messages.append({"same": word, **({"count": len(run)} if len(run) > 1 else {})})
        elif word and len(run) > 1:
            messages.append(_encode_block([array for array in run if array is not None]))
        else:
            messages += map(encode_array, run)
    return messages


def _find_kind(array: Array | None, others: Mapping[str, Array | None]) -> tuple[bool, str]:
    """Return whether an array equals one of the others, and the name of that one, or the dtype of a short array."""
    if array is None:
        return False, ""
    for name, other in others.items():
        if other is not None and array == other:
            return True, name
    return False, array.dtype if array.dtype in DTYPES and len(array.data) <= SHORT else ""


def _encode_block(arrays: Sequence[Array]) -> dict[str, Any]:
    data = base64.b64encode(b"".join(array.data for array in arrays)).decode("ascii")
    return {"dtype": arrays[0].dtype, "shapes": [list(array.shape) for array in arrays], "data": data}


def _decode_block(message: Mapping[str, Any]) -> Iterator[Array]:
    dtype = message["dtype"]
    if dtype not in DTYPES:
        text = f"a block of arrays has no dtype {dtype!r:.40}"
        raise ValueError(text)
    check_limit(GRADIENTS, len(message["shapes"]))
    shapes = [_decode_shape(shape) for shape in message["shapes"]]
    sizes = [_count_bytes(shape, dtype) for shape in shapes]
    expected = sum(sizes)
    if len(message["data"]) != 4 * ((expected + 2) // 3):
        text = f"a block of {len(shapes)} arrays takes {expected} bytes of {dtype}, and does not have them"
        raise ValueError(text)
    data = base64.b64decode(message["data"], validate=True)
    if len(data) != expected:
        text = f"{len(data)} bytes for a block of {len(shapes)} arrays, which takes {expected}"
        raise ValueError(text)
    start = 0
    for shape, size in zip(shapes, sizes):
        yield Array(dtype, shape, data[start : start + size])
        start += size


def decode_array(message: Mapping[str, Any] | None) -> Array | None:
    """Undo :func:`encode_array`.

    The shape is checked before the data, and the length of the data before they are decoded.

    Raises
    ------
    ValueError
        If the shape is not valid, or the data do not have the length that the shape needs.
    """
    if message is None:
        return None
    dtype, shape = _decode_text(message["dtype"], "the name of a dtype"), _decode_shape(message["shape"])
    if "recipe" in message:
        recipe, size = recipes.decode_recipe(message["recipe"]), _count_bytes(shape, dtype)
        check_limit(RECIPE, size)
        return (_expand_small if size <= recipes.SMALL else _expand)(recipe, dtype, shape)
    text = message["data"]
    if dtype in DTYPES:
        expected = _count_bytes(shape, dtype)
        if len(text) != 4 * ((expected + 2) // 3):
            found = f"{len(text) // 4 * 3} bytes, more or less,"
            raise ValueError(_describe_wrong_length(found, shape, dtype, expected))
    data = base64.b64decode(text, validate=True)
    if dtype in DTYPES and len(data) != expected:
        raise ValueError(_describe_wrong_length(f"{len(data)} bytes", shape, dtype, expected))
    return Array(dtype, shape, data)


def _expand(recipe: recipes.Recipe, dtype: str, shape: tuple[int, ...]) -> Array:
    return Array(dtype, shape, recipes.expand(recipe, dtype, shape), recipe)


#: Many gradients of a list are alike.
_expand_small = lru_cache(maxsize=1 << 12)(_expand)


def _decode_text(text: Any, what: str) -> str:
    """Return a text. Refuse any other value, which a reply would repeat."""
    if type(text) is not str:
        message = f"{text!r:.40} is not {what}"
        raise ValueError(message)
    return text


def _decode_shape(lengths: Any) -> tuple[int, ...]:
    check_limit(AXES, len(lengths))
    for length in lengths:
        # In Python, a boolean is an integer.
        if type(length) is not int or length < 0:
            message = f"{length!r:.40} is not the length of an axis"
            raise ValueError(message)
        check_limit(LENGTH, length)
    return tuple(lengths)


def _count_bytes(shape: Sequence[int], dtype: str) -> int:
    count = int(DTYPES[dtype][-1])
    for length in shape:
        count *= length
    return count


def _describe_wrong_length(found: str, shape: Sequence[int], dtype: str, expected: int) -> str:
    return f"{found} for shape {tuple(shape)} of {dtype}, which takes {expected}"


def encode_arrays(arrays: Sequence[Array | None] | None) -> list[dict[str, Any] | None] | None:
    """Return the messages of a list of arrays. None stays None."""
    return None if arrays is None else [encode_array(array) for array in arrays]


def encode_gradient(gradient: Gradient, by_recipe: bool = False) -> dict[str, Any]:
    """Return the message of a gradient, without default values."""
    message: dict[str, Any] = {
        "name": gradient.name,
        "array": encode_array(gradient.array, by_recipe),
        "need_clip": gradient.need_clip,
    }
    if gradient.layout != "contiguous":
        message["layout"] = gradient.layout
    if gradient.same_as is not None:
        message["same_as"] = gradient.same_as
    if gradient.rows is not None:
        message["rows"] = list(gradient.rows)
    if gradient.height is not None:
        message["height"] = gradient.height
    if gradient.group:
        message["group"] = gradient.group
    if gradient.cotangent is not None:
        message["cotangent"] = encode_array(gradient.cotangent)
    if gradient.placements:
        message["placements"] = dict(gradient.placements)
    if gradient.parameter is not None:
        message["parameter"] = encode_array(gradient.parameter)
    return message


def decode_gradient(message: Mapping[str, Any]) -> Gradient:
    """Undo :func:`encode_gradient`."""
    rows = message.get("rows")
    return Gradient(
        name=message["name"],
        array=decode_array(message["array"]),
        need_clip=message["need_clip"],
        layout=message.get("layout", "contiguous"),
        same_as=message.get("same_as"),
        rows=None if rows is None else tuple(rows),
        height=message.get("height"),
        group=message.get("group", 0),
        cotangent=decode_array(message.get("cotangent")),
        placements=message.get("placements", {}),
        parameter=decode_array(message.get("parameter")),
    )


def encode_call(call: Call, number: int, by_recipe: bool = False) -> dict[str, Any]:
    """Return the message of a call. The number comes back with its answer.

    With `by_recipe`, send the recipes of arrays and not their data. Use it only for a host that knows the recipes.
    """
    return {
        "message": "call",
        "number": number,
        "subject": call.subject,
        "gradients": [encode_gradient(gradient, by_recipe) for gradient in call.gradients],
        "options": {name: encode_value(value) for name, value in call.options.items()},
    }


def decode_call(message: Mapping[str, Any]) -> Call:
    """Undo :func:`encode_call`, without the number."""
    return Call(
        subject=message["subject"],
        gradients=tuple(decode_gradient(gradient) for gradient in message["gradients"]),
        options={name: decode_value(value) for name, value in message["options"].items()},
    )


def encode_reply(reply: Reply, number: int, call: Call | None = None) -> dict[str, Any]:
    """Return the message of a reply. Leave out `malformed` if it is None.

    If `call` is given, an array that equals the passed gradient or the result is not sent again.

    Raises
    ------
    BadReply
        If `reply` is not a reply, or holds something other than arrays.
    """
    check_reply(reply)
    given = [] if call is None else [gradient.array for gradient in call.gradients]
    message: dict[str, Any] = {
        "message": "reply",
        "number": number,
        "gradients": _encode_in_runs(reply.gradients, {"call": given}),
        "norm": encode_array(reply.norm),
        "inputs": None
        if reply.inputs is None
        else _encode_in_runs(reply.inputs, {"call": given, "result": reply.gradients}),
        "same_object": None if reply.same_object is None else list(reply.same_object),
        "warnings": [shorten(text) for text in reply.warnings[: WARNINGS.number]],
    }
    if reply.malformed is not None:
        message["malformed"] = shorten(reply.malformed)
    for name, texts in (("shared", reply.shared), ("disturbed", reply.disturbed), ("apart", reply.apart)):
        if texts is not None:
            message[name] = [shorten(text) for text in texts[: WARNINGS.number]]
    return message


def check_reply(reply: Any) -> None:
    """Refuse a reply that breaks the contract, with a sentence for the adapter's author.

    Raises
    ------
    BadReply
        If the reply breaks the contract.
    """
    if not isinstance(reply, Reply):
        text = f"`call` must return a gradclip_adapters.contract.Reply, and returned a {_name_type(reply)}"
        raise BadReply(text)
    _check_arrays("gradients", reply.gradients)
    _check_array("norm", reply.norm)
    if reply.inputs is not None:
        _check_arrays("inputs", reply.inputs)
    if reply.same_object is not None:
        _check_items("same_object", reply.same_object, bool)
    _check_items("warnings", reply.warnings, str)
    for name in ("shared", "disturbed", "apart"):
        _check_items(name, getattr(reply, name) or (), str)
    if not isinstance(reply.malformed, (str, type(None))):
        text = f"Reply.malformed is a {_name_type(reply.malformed)}, and must be a text or None"
        raise BadReply(text)


def _check_arrays(field: str, arrays: Any) -> None:
    if not isinstance(arrays, (list, tuple)):
        text = f"Reply.{field} is a {_name_type(arrays)}, and must be a tuple of Array or None"
        raise BadReply(text)
    for place, array in enumerate(arrays):
        _check_array(f"{field}[{place}]", array)


def _check_array(field: str, array: Any) -> None:
    if not isinstance(array, (Array, type(None))):
        text = f"Reply.{field} is a {_name_type(array)}; wrap it: Array.of(...)"
        raise BadReply(text)


def _check_items(field: str, items: Any, kind: type) -> None:
    if not isinstance(items, (list, tuple)) or not all(isinstance(item, kind) for item in items):
        text = f"Reply.{field} must be a tuple of {kind.__name__}, not {items!r:.100}"
        raise BadReply(text)


def _name_type(value: Any) -> str:
    kind = type(value)
    return kind.__name__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__name__}"


def decode_reply(message: Mapping[str, Any], call: Call | None = None) -> Reply:
    """Undo :func:`encode_reply`, without the number.

    Raises
    ------
    ValueError
        If an array is not valid, or names an array that does not exist.
    """
    inputs, same_object = message["inputs"], message["same_object"]
    given = [] if call is None else [gradient.array for gradient in call.gradients]
    results = _decode_runs(message["gradients"], {"call": given})
    return Reply(
        gradients=results,
        norm=decode_array(message["norm"]),
        inputs=None if inputs is None else _decode_runs(inputs, {"call": given, "result": results}),
        same_object=None if same_object is None else tuple(same_object),
        warnings=tuple(message["warnings"]),
        malformed=message.get("malformed"),
        shared=None if message.get("shared") is None else tuple(message["shared"]),
        disturbed=None if message.get("disturbed") is None else tuple(message["disturbed"]),
        apart=None if message.get("apart") is None else tuple(message["apart"]),
    )


def _decode_runs(
    messages: Sequence[Mapping[str, Any] | None], named: Mapping[str, Sequence[Array | None]]
) -> tuple[Array | None, ...]:
    """Return the arrays of a reply. A message that names other arrays stands for the ones at its places among them."""
    found: list[Array | None] = []
    for message in messages:
        if message is not None and "same" in message:
            first, last = len(found), len(found) + message.get("count", 1)
            others = named.get(message["same"], ())[first:last]
            if len(others) < last - first or None in others:
                text = f"there is no array {message['same']!r:.20} at the places {first} to {last - 1}"
                raise ValueError(text)
            found += others
        elif message is not None and "shapes" in message:
            found += _decode_block(message)
        else:
            found.append(decode_array(message))
    return tuple(found)


def encode_entry_point(entry_point: EntryPoint) -> dict[str, Any]:
    """Return the message of an entry point, for `about` and for the header of a record."""
    formula = entry_point.formula
    return {
        "name": entry_point.name,
        "operation": entry_point.operation,
        "dtypes": list(entry_point.dtypes),
        "features": sorted(entry_point.features),
        "norm_types": [float(p).hex() for p in entry_point.norm_types],
        "formula": None if formula is None else {name: encode_value(value) for name, value in formula.items()},
        **({} if entry_point.mesh is None else {"mesh": dict(entry_point.mesh)}),
    }


def decode_entry_point(message: Mapping[str, Any]) -> EntryPoint:
    """Undo :func:`encode_entry_point`."""
    formula = message["formula"]
    return EntryPoint(
        name=message["name"],
        operation=message["operation"],
        dtypes=tuple(message["dtypes"]),
        features=tuple(message["features"]),
        norm_types=tuple(_decode_float(p) for p in message["norm_types"]),
        formula=None if formula is None else {name: decode_value(value) for name, value in formula.items()},
        mesh=message.get("mesh"),
    )


def encode_about(about: About, entry_points: Sequence[EntryPoint], python: str, platform: str) -> dict[str, Any]:
    """Return the message `about`."""
    return {
        "message": "about",
        "protocol": PROTOCOL,
        "framework": about.framework,
        "version": about.version,
        "python": python,
        "platform": platform,
        "recipes": recipes.VERSION,
        "environment": dict(about.environment),
        "subjects": [encode_entry_point(entry_point) for entry_point in check_entry_points(entry_points)],
    }


def decode_about(message: Mapping[str, Any]) -> tuple[About, tuple[EntryPoint, ...]]:
    """Undo :func:`encode_about`, without the Python and the platform.

    Raises
    ------
    ValueError
        If the contract does not know a word, or if two entry points have the same name.
    """
    about = About(message["framework"], message["version"], dict(message["environment"]))
    return about, check_entry_points([decode_entry_point(entry_point) for entry_point in message["subjects"]])


def check_entry_points(entry_points: Sequence[EntryPoint]) -> tuple[EntryPoint, ...]:
    """Return the entry points of an adapter, after checking that no two have the same name.

    Raises
    ------
    BadDeclaration
        If two entry points have the same name, or if one of them is no `EntryPoint`.
    """
    seen = set()
    for entry_point in entry_points:
        if not isinstance(entry_point, EntryPoint):
            text = f"`subjects` must return EntryPoint objects, and returned a {_name_type(entry_point)}"
            raise BadDeclaration(text)
        if entry_point.name in seen:
            text = f"The entry point {entry_point.name!r} is declared twice; give each entry point its own name."
            raise BadDeclaration(text)
        seen.add(entry_point.name)
    return tuple(entry_points)
