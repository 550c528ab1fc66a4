"""Locate the files with the known failures of an adapter, and with the claims of its documentation."""

from __future__ import annotations

import re
from pathlib import Path

from gradclip_adapters import registry

__all__ = ["SCHEMAS", "find_sidecar_file"]

#: A JSON Schema for each kind of file.
SCHEMAS = Path(__file__).parent / "schemas"


def find_sidecar_file(adapter: str, kind: str, folder: Path) -> Path | None:
    """Return the path of an adapter's file of a kind, "expectations" or "claims", which need not exist.

    The file of an adapter with a name is in a folder of the suite. The file of an adapter `my_adapter.py` is next to
    it, as `my_adapter.expectations.toml`. A plain function has no such file; the result is None.

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
    if re.fullmatch(r"[A-Za-z0-9._-]+", adapter) is None:
        msg = f"{adapter!r} is not the name of an adapter: only letters, digits, '-', '_' and '.' are allowed."
        raise ValueError(msg)
    return folder / f"{adapter}.toml"
