"""Write values and texts as Python literals that read back exactly. No text becomes code."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable
from typing import Any

import numpy as np

#: A longer array is written out only if a few elements repeat, or if `make_scattered` makes it.
WRITTEN_ELEMENTS = 64

#: An array with at most this many elements is written as bytes, if nothing shorter makes it.
WRITTEN_BYTES = 512

#: The width of the docstring's lines. With escapes, the lines still fit into a wide editor.
DOCSTRING_WIDTH = 112

#: The source of `make_scattered`.
SCATTERED = "(np.arange({}, dtype=np.int64) * 2654435761 % 2**24 - 2**23) * 2.0**-29"


def make_scattered(length: int) -> np.ndarray[Any, Any]:
    """Return numbers in [-1/64, 1/64] that look random, but are the same everywhere: hashes of their indices."""
    hashed = np.arange(length, dtype=np.int64) * 2654435761 % 2**24
    return (hashed - 2**23) * 2.0**-29


class NoScript(Exception):
    """No script can show a cell. The text says why."""


def write_literal(value: Any) -> str:
    """Return a value as Python source. All data enters a script through this function.

    Floats become the shortest decimal that reads back exactly; `nan` and `inf` are names of `math`. Characters that
    could end a text, or that an editor would hide, become escapes.

    Raises
    ------
    NoScript
        If the value is not a number, a text, None, or a list or a dictionary of them.
    """
    # Compare exact types: a subclass may define its own `repr`, whose text would become code.
    if value is None or type(value) in (bool, int, float):
        return repr(value)
    if type(value) is str:
        return f'"{_escape(value)}"'
    if type(value) in (list, tuple):
        return "[" + ", ".join(map(write_literal, value)) + "]"
    if type(value) is dict:
        return "{" + ", ".join(f"{write_literal(key)}: {write_literal(one)}" for key, one in value.items()) + "}"
    msg = f"A script cannot hold a value of the type {type(value).__name__}."
    raise NoScript(msg)


def write_docstring(paragraphs: Iterable[str]) -> str:
    """Return paragraphs as the source of a docstring, with wrapped lines."""
    lines: list[str] = []
    for text in paragraphs:
        # Wrap the lines before escaping them. Otherwise a line could end inside an escape.
        lines += textwrap.wrap(text, DOCSTRING_WIDTH, break_on_hyphens=False) or [""]
    return '"""' + "\n".join(map(_escape, lines)) + '\n"""'


def _escape(text: str) -> str:
    """Return a text with escapes for backslashes, quotes and everything that is not printable."""
    return "".join(_escape_character(character) for character in text)


def _escape_character(character: str) -> str:
    if character in '\\"':
        return f"\\{character}"
    if character.isprintable():
        return character
    return character.encode("unicode_escape", "surrogatepass").decode("ascii")


def write_array(values: np.ndarray[Any, Any]) -> str:
    """Return an array of float64 as source: nested lists, or a call of NumPy if lists would be long or lose the shape.

    Raises
    ------
    NoScript
        If the array is long, does not repeat a short sequence, has many nonzero elements, and `make_scattered` does
        not make it.
    """
    if values.size == 0:
        return f"np.zeros({values.shape})"
    if values.size <= WRITTEN_ELEMENTS:
        return repr(values.tolist())
    if values.ndim == 1 and np.array_equal(make_scattered(values.size), values):
        return SCATTERED.format(values.size)
    written = _write_long(values.ravel())
    return written if values.ndim == 1 else f"{written}.reshape{values.shape}"


def _write_long(values: np.ndarray[Any, Any]) -> str:
    """Return a long array of one axis as a call of NumPy."""
    # Compare bits, because 0.0 equals -0.0.
    bits = np.ascontiguousarray(values).view(np.int64)
    for period in range(1, WRITTEN_ELEMENTS):
        times, rest = divmod(values.size, period)
        if np.array_equal(np.resize(bits[:period], values.size), bits):
            function, count = ("resize", values.size) if rest else ("tile", times)
            return f"np.{function}({values[:period].tolist()!r}, {count})"
    places = np.flatnonzero(bits).tolist()
    # The sum of 0.0 and -0.0 has no sign.
    if len(places) <= WRITTEN_ELEMENTS // 2 and np.count_nonzero(values[places]) == len(places):
        return f"np.bincount({places}, {values[places].tolist()!r}, {values.size})"
    if values.size <= WRITTEN_BYTES:
        return _write_bytes(values)
    msg = f"The gradient has {values.size} elements, too many to write out."
    raise NoScript(msg)


def _write_bytes(values: np.ndarray[Any, Any]) -> str:
    """Return an array as the bytes of the narrowest dtype that holds its elements."""
    for dtype in ("<f2", "<f4", "<f8"):
        with np.errstate(over="ignore"):
            narrow = values.astype(dtype)
        if np.array_equal(narrow.astype(values.dtype), values, equal_nan=True):
            break
    return f'np.frombuffer(bytes.fromhex("{narrow.tobytes().hex()}"), "{dtype}").astype(float)'
