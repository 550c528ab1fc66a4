"""Check values against a simple JSON Schema, twenty times as fast as the package jsonschema.

A record has ten thousand cells, and each is checked. This check knows only a few keywords, and it may refuse a value
that JSON Schema accepts, such as 1.0 where an integer is due. So it answers "valid" or "unknown". A value that it does
not accept goes to jsonschema, which decides and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

__all__ = ["Check", "compile_schema"]

#: A function that returns whether a value surely satisfies a schema.
Check = Callable[[Any], bool]

Schema = Mapping[str, Any]

#: Keywords that need no check of their own. They say nothing about values, or the check of another keyword reads them.
_READ_ELSEWHERE = frozenset({"$schema", "title", "description", "additionalProperties", "properties", "then"})

_TYPES: Mapping[str, frozenset[type]] = {
    "object": frozenset({dict}),
    "string": frozenset({str}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "null": frozenset({type(None)}),
}

_SCALARS = frozenset({str, int, float, bool, type(None)})


class _UnknownKeyword(Exception):
    """A schema has a keyword that this module does not know."""


def compile_schema(schema: Schema) -> Check | None:
    """Return a check of a schema, or None if the schema has a keyword that this module does not know."""
    try:
        return _compile(schema)
    except _UnknownKeyword:
        return None


def _compile(schema: Schema) -> Check:
    checks = [_compile_keyword(name, schema) for name in schema if name not in _READ_ELSEWHERE]
    if "properties" in schema or "additionalProperties" in schema:
        checks.append(_check_members(schema))
    if len(checks) == 1:
        return checks[0]

    # This function runs a hundred thousand times for a record. A loop takes half the time of `all`.
    def check(value: Any) -> bool:
        for one in checks:  # noqa: SIM110
            if not one(value):
                return False
        return True

    return check


def _compile_keyword(name: str, schema: Schema) -> Check:
    """Return the check of one keyword. A check of texts or numbers refuses values of other types."""
    wanted = schema[name]
    if name == "type":
        types = frozenset[type]().union(*(_find_type(one) for one in ([wanted] if isinstance(wanted, str) else wanted)))
        return lambda value: type(value) in types
    if name in ("const", "enum"):
        # In Python, 1 equals True and 1.0. In JSON Schema, 1 equals 1.0, but not True.
        allowed = frozenset((type(one), one) for one in ([wanted] if name == "const" else wanted))
        return lambda value: type(value) in _SCALARS and (type(value), value) in allowed
    if name == "minLength":
        return lambda value: type(value) is str and len(value) >= wanted
    if name == "minimum":
        return lambda value: type(value) in (int, float) and value >= wanted
    if name == "required":
        names = frozenset(wanted)
        return lambda value: type(value) is dict and value.keys() >= names
    if name == "anyOf":
        checks = [_compile(one) for one in wanted]
        return lambda value: any(check(value) for check in checks)
    if name == "if":
        refuses, then = _compile_refusal(wanted), _compile(schema.get("then", {}))
        return lambda value: then(value) or refuses(value)
    raise _UnknownKeyword


def _find_type(name: str) -> frozenset[type]:
    if name not in _TYPES:
        raise _UnknownKeyword
    return _TYPES[name]


def _check_members(schema: Schema) -> Check:
    """Return the check of an object's members."""
    checks = {name: _compile(one) for name, one in schema.get("properties", {}).items()}
    others = schema.get("additionalProperties", {})
    if others not in ({}, False):
        raise _UnknownKeyword
    unnamed: Check = lambda _: others is not False  # noqa: E731

    def check(value: Any) -> bool:
        if type(value) is not dict:
            return False
        for name, member in value.items():  # noqa: SIM110
            if not checks.get(name, unnamed)(member):
                return False
        return True

    return check


def _compile_refusal(schema: Schema) -> Check:
    """Return a check that is true if an object surely violates a schema, because a member has a forbidden text."""
    names, members = set(schema), schema.get("properties", {})
    texts = {name: one["not"].get("const") for name, one in members.items() if set(one) == {"not"}}
    if names != {"properties"} or texts.keys() != members.keys() or not all(type(one) is str for one in texts.values()):
        raise _UnknownKeyword
    return lambda value: type(value) is dict and any(value.get(name) == text for name, text in texts.items())
