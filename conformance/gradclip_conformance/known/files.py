"""Locate the files that people keep beside an adapter: known failures, and claims of its documentation."""

from __future__ import annotations

from pathlib import Path

from gradclip_adapters import registry

__all__ = ["SCHEMAS", "find_sidecar_file"]

#: A JSON Schema for each kind of file.
SCHEMAS = Path(__file__).parent / "schemas"


def find_sidecar_file(adapter: str, kind: str, folder: Path) -> Path:
    """Return the path of an adapter's file of a kind, "expectations" or "claims", whether it is there or not.

    Of an adapter by name it lies in our folder. Beside a file `my_adapter.py` it is `my_adapter.expectations.toml`,
    however the path is spelled.
    """
    if registry.kind_of(adapter) == "file":
        return Path(adapter).with_suffix(f".{kind}.toml")
    return folder / f"{adapter}.toml"
