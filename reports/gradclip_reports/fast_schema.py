"""Check values against a simple JSON Schema, twenty times as fast as the package jsonschema.

A record has ten thousand cells, and each is checked. This check knows only a few keywords, and it may refuse a value
that JSON Schema accepts, such as 1.0 where an integer is due. So it answers "valid" or "unknown". A value that it does
not accept goes to jsonschema, which decides and says what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

__all__ = ["Check", "compile_schema"]

#: A function that returns whether a value surely satisfies a schema.
Check = Callable[[Any], bool]

Schema = Mapping[str, Any]

#: Keywords that say nothing about values.
_WORDS = frozenset({"$schema", "title", "description"})

#: Keywords that the check of another keyword reads.
_READ_ELSEWHERE = frozenset({"additionalProperties", "properties", "then"})

_TYPES: Mapping[str, frozenset[type]] = {
    "object": frozenset({dict}),
    "string": frozenset({str}),
    "integer": frozenset({int}),
    "number": frozenset({int, float}),
    "null": frozenset({type(None)}),
}

_TEXTS = frozenset({str, type(None)})

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
    names = [name for name in schema if name not in _WORDS | _READ_ELSEWHERE and not _is_implied(name, schema)]
    checks = [_compile_keyword(name, schema) for name in names]
    if "properties" in schema or "additionalProperties" in schema:
        checks.append(_check_members(schema))
    if len(checks) == 1:
        return checks[0]
    return _combine(checks, True)


def _combine(checks: Sequence[Check], are_all_needed: bool) -> Check:
    """Return a check that accepts what all checks accept, or what any of them accepts."""

    # This function runs a hundred thousand times for a record. A loop takes half the time of `all` and `any`.
    def check(value: Any) -> bool:
        for one in checks:
            if one(value) is not are_all_needed:
                return not are_all_needed
        return are_all_needed

    return check


def _is_implied(name: str, schema: Schema) -> bool:
    """Return whether the check of another keyword refuses what the check of this keyword refuses."""
    implied = {"string": {"minLength"}, "number": {"minimum"}, "object": {"properties", "additionalProperties"}}
    return name == "type" and not implied.get(str(schema["type"]), set()).isdisjoint(schema)


def _compile_keyword(name: str, schema: Schema) -> Check:
    """Return the check of one keyword. A check of texts or numbers refuses values of other types."""
    wanted = schema[name]
    if name == "type":
        types = frozenset[type]().union(*(_find_type(one) for one in ([wanted] if isinstance(wanted, str) else wanted)))
        return lambda value: type(value) in types
    if name in ("const", "enum"):
        # In Python, 1 equals True and 1.0. In JSON Schema, 1 equals 1.0, but not True.
        values = [wanted] if name == "const" else wanted
        if all(type(one) in (str, type(None)) for one in values):
            texts = frozenset(values)
            return lambda value: type(value) in _TEXTS and value in texts
        allowed = frozenset((type(one), one) for one in values)
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
        return _combine(checks, False)
    if name == "if":
        refuses, then = _compile_refusal(wanted), _compile(schema.get("then", {}))
        return lambda value: refuses(value) or then(value)
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
    names, are_open = checks.keys(), others is not False
    # Checks that accept everything need not run.
    needed = [(name, check) for name, check in checks.items() if schema["properties"][name].keys() - _WORDS]

    def check(value: Any) -> bool:
        if type(value) is not dict or not (are_open or value.keys() <= names):
            return False
        for name, one in needed:  # noqa: SIM110
            if name in value and not one(value[name]):
                return False
        return True

    return check


def _compile_refusal(schema: Schema) -> Check:
    """Return a check that is true if an object surely violates a schema, because a member has a forbidden text."""
    names, members = set(schema), schema.get("properties", {})
    texts = {name: one["not"].get("const") for name, one in members.items() if set(one) == {"not"}}
    if names != {"properties"} or texts.keys() != members.keys() or not all(type(one) is str for one in texts.values()):
        raise _UnknownKeyword
    pairs = [*texts.items()]

    def refuses(value: Any) -> bool:
        if type(value) is dict:
            for name, text in pairs:
                if value.get(name) == text:
                    return True
        return False

    return refuses
