"""Locate and read the files with the known failures of an adapter, and with the claims of its documentation."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

from packaging.specifiers import SpecifierSet

from gradclip_adapters import registry

from ..cases.patterns import matches
from ..cases.toml_files import add_place_to_errors, check_document

#: A JSON Schema for each kind of file.
SCHEMAS = Path(__file__).parent / "schemas"

Entry = TypeVar("Entry")


def find_sidecar_file(adapter: str, kind: str, folder: Path) -> Path | None:
    """Return the path of an adapter's file of the kind "expectations" or "claims". The file need not exist.

    The file of an adapter `my_adapter.py` is next to it, as `my_adapter.expectations.toml`; the same is true for an
    adapter in another language or in another package. The files of our own adapters are in a folder of the suite. A
    plain function has no such file; the result is None.

    Raises
    ------
    ValueError
        If the name of an adapter has unusual characters. The name may come from a record, and must not lead to another
        folder.
    """
    match registry.find_kind(adapter):
        case "file":
            return Path(adapter).with_suffix(f".{kind}.toml")
        case "function":
            return None
    if Path(adapter).suffix and os.path.isfile(Path(adapter)):
        return Path(adapter).with_suffix(f".{kind}.toml")
    if re.fullmatch(r"[A-Za-z0-9._-]+", adapter) is None:
        msg = f"{adapter!r} is not the name of an adapter: only letters, digits, '-', '_' and '.' are allowed."
        raise ValueError(msg)
    module = None if adapter in registry.BUILT_IN else registry.list_installed().get(adapter)
    origin = None if module is None else find_module_file(module.partition(":")[0])
    return folder / f"{adapter}.toml" if origin is None else Path(origin).with_suffix(f".{kind}.toml")


def find_module_file(name: str) -> str | None:
    """Return the file of a module as a new process finds it, or None. Do not import the module's packages.

    `importlib.util.find_spec` looks at imported modules first, and imports the packages of a dotted name.
    """
    path: Sequence[str] | None = None
    parts = name.split(".")
    origin = None
    for length in range(1, len(parts) + 1):
        full = ".".join(parts[:length])
        specs = (finder.find_spec(full, path) for finder in sys.meta_path)
        spec = next((spec for spec in specs if spec is not None), None)
        if spec is None:
            return None
        path, origin = spec.submodule_search_locations, spec.origin
    return origin


def read_entries(
    document: dict[str, Any],
    kind: str,
    file: str,
    schema: str,
    refuse: Callable[[Any], None],
    make: Callable[[Mapping[str, Any]], Entry],
) -> tuple[Entry, ...]:
    """Return what the entries [[kind]] of a document stand for. Each error names the file, and most name the entry.

    Parameters
    ----------
    document, kind, file
        The document, the name of its entries, and the name of its file.
    schema
        The name of the JSON Schema of the document.
    refuse
        A function that refuses an entry, which may hold anything, with a clearer message than that of the schema.
    make
        A function that returns what an entry that satisfies the schema stands for.
    """
    entries = document.get(kind, [])
    for number, entry in enumerate(entries if isinstance(entries, list) else (), start=1):
        with add_place_to_errors(f"{file}, [[{kind}]] {number}"):
            refuse(entry)
    check_document(document, SCHEMAS / schema, file)
    found = []
    for number, entry in enumerate(entries, start=1):
        with add_place_to_errors(f"{file}, [[{kind}]] {number}"):
            found.append(make(entry))
    return tuple(found)


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
