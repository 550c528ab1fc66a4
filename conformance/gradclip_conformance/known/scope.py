"""Decide whether a known failure or a claim is about a version of a framework, and about a device."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Protocol

from packaging.specifiers import SpecifierSet

from ..cases.patterns import matches

__all__ = ["holds", "is_version_within"]


class Scoped(Protocol):
    """A known failure or a claim."""

    @property
    def versions(self) -> str:
        """A specifier such as ">=2.6,<3"; if it is empty, all versions."""

    @property
    def devices(self) -> str:
        """A pattern of the device, or of the list of devices, that an adapter names."""


def holds(one: Scoped, version: str, environment: Mapping[str, str]) -> bool:
    """Return whether a known failure or a claim is about this version on this device."""
    device = environment.get("device", environment.get("devices", ""))
    return matches(one.devices, device) and is_version_within(version, one.versions)


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
