"""Check that claims quote the installed documentation. `tests/conformance/test_claims.py` checks their form."""

from __future__ import annotations

import sys
import tomllib

import pytest

from gradclip_adapters.registry import resolve
from gradclip_conformance.known.claims import CLAIMS, find_drift, load_claims, read_docstrings


@pytest.mark.parametrize(
    "adapter",
    [pytest.param(path.stem, marks=pytest.mark.array_library(path.stem)) for path in sorted(CLAIMS.glob("*.toml"))],
)
def test_phrases_are_in_the_installed_documentation(adapter: str) -> None:
    claimed = tomllib.loads((CLAIMS / f"{adapter}.toml").read_text(encoding="utf-8"))["version"]
    installed = resolve(adapter).about().version.partition("+")[0]
    if installed.split(".")[0] != claimed.split(".")[0]:
        pytest.skip(f"the claims are about {adapter} {claimed}, and {installed} is installed")
    claims = [claim for claim in load_claims(adapter) if claim.docstring is not None]

    drift = find_drift(claims, read_docstrings([str(claim.docstring) for claim in claims], sys.executable))

    # In another version, the rest of a docstring may have changed.
    assert [line for line in drift if installed == claimed or "no longer says" in line] == []
