"""Decide whether a known failure or a claim is about a version of a framework, and about a device."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from packaging.specifiers import SpecifierSet

from ..cases.patterns import matches

__all__ = ["is_on_device", "is_version_within"]


def is_on_device(environment: Mapping[str, str], pattern: str) -> bool:
    """Return whether the device, or the list of devices, that an adapter names matches a pattern."""
    return matches(pattern, environment.get("device", environment.get("devices", "")))


# Parsing a specifier takes long.
@cache
def is_version_within(version: str, specifier: str) -> bool:
    """Return whether a version is within a specifier such as ">=2.6,<3".

    Only the release numbers of the version count: "3.0rc1" and "3.0+cpu" are 3.0, and a version without them is 0.

    Raises
    ------
    ValueError
        If the specifier is not valid.
    """
    release = re.match(r"[0-9]{1,9}(\.[0-9]{1,9}){0,9}", version)
    try:
        return SpecifierSet(specifier).contains(release[0] if release else "0")
    except ValueError as error:
        msg = f"The version specifier {specifier!r} is not one such as '>=2.6,<3'."
        raise ValueError(msg) from error
