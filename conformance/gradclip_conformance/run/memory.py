"""Sizes of memory as people write them."""

from __future__ import annotations

import re

__all__ = ["parse_size"]

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

#: A Python with NumPy takes about a tenth of this.
SMALLEST = 256 << 20


def parse_size(text: str | int) -> int:
    """Return a number of bytes: a whole number, or one with K, M, G or T, such as "4G".

    Raises
    ------
    ValueError
        When it is none, or too small for a host to start.
    """
    matched = re.fullmatch(r"([0-9]{1,15})\s*([KMGT]?)(?:i?B)?", str(text).strip(), re.IGNORECASE)
    if matched is None:
        msg = f"{text!r} is no size of memory; write 4G or 512M."
        raise ValueError(msg)
    size = int(matched[1]) * UNITS[matched[2].upper()]
    if not SMALLEST <= size < 1 << 63:
        msg = f"{text} of memory are too {'few' if size < SMALLEST else 'many'}: a host needs at least 256M to start."
        raise ValueError(msg)
    return size
