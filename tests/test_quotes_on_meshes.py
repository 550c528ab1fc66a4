"""Check that the page about meshes quotes docstrings of the installed libraries."""

from __future__ import annotations

import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).parents[1] / "docs" / "explanation" / "norm-over-a-mesh.md"
ROW = re.compile(r'^\| (torch|JAX|TensorFlow) [\d.]+ \| "(.+)" \| `([\w.]+)`', re.MULTILINE)
ROWS = ROW.findall(PAGE.read_text(encoding="utf-8"))

#: The modules of the names that the page gives without one.
MODULES = {
    "FullyShardedDataParallel": "torch.distributed.fsdp",
    "fully_shard": "torch.distributed.fsdp",
    "Replicate": "torch.distributed.tensor",
    "jax": "jax",
    "tensorflow": "tensorflow",
}


def test_page_has_quotes() -> None:
    assert len(ROWS) >= 6


@pytest.mark.parametrize(("library", "phrase", "name"), ROWS)
def test_phrase_stands_in_the_docstring(library: str, phrase: str, name: str) -> None:
    pytest.importorskip(library.lower(), reason=f"{library} is not installed in this Python")
    first, _, rest = name.partition(".")
    found: Any = importlib.import_module(MODULES[first])
    for part in (rest if first == MODULES[first] else name).split("."):
        found = getattr(found, part)
    words = " ".join((inspect.getdoc(found) or "").split())

    assert len(phrase.split()) <= 15
    assert phrase in words
