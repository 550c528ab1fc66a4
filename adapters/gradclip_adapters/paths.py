"""Look for files and folders whose names come from outside."""

from __future__ import annotations

from pathlib import Path

__all__ = ["FILE_MODULE", "file_exists", "folder_exists"]

#: An adapter's file is imported under a name that begins with this text.
FILE_MODULE = "_gradclip_adapter_"


def file_exists(path: str | Path) -> bool:
    """Return whether there is such a file. Return False for a path that the system refuses, such as a long one.

    `Path.is_file` raises an error for a name of 300 characters.
    """
    try:
        return Path(path).is_file()
    except (OSError, ValueError):
        return False


def folder_exists(path: str | Path) -> bool:
    """Return whether there is such a folder. Return False for a path that the system refuses."""
    try:
        return Path(path).is_dir()
    except (OSError, ValueError):
        return False
