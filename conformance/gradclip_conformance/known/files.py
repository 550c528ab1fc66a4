"""Where what people keep of an adapter stands: the failures that are known of it, and what its documentation says."""

from __future__ import annotations

from pathlib import Path

from gradclip_adapters import registry

__all__ = ["kept_file"]


def kept_file(adapter: str, kind: str, folder: Path) -> Path:
    """The file of a kind, "expectations" or "claims", by its adapter's name in our folder, or beside its file.

    Beside `my_adapter.py` it is `my_adapter.expectations.toml`, however the path is spelled.
    """
    if registry.kind_of(adapter) == "file":
        return Path(adapter).with_suffix(f".{kind}.toml")
    return folder / f"{adapter}.toml"
