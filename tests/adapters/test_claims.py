"""Check that claims quote the installed documentation. `tests/conformance/test_claims.py` checks their form."""

from __future__ import annotations

import functools
import importlib
import inspect
import tomllib

import pytest

from gradclip_adapters.registry import resolve
from gradclip_conformance.known.claims import CLAIMS, find_drift, load_claims


def read_docstring(name: str) -> str:
    """Return the docstring of an object. The adapter has imported the modules in which it is."""
    module, *names = name.split(".")
    return inspect.getdoc(functools.reduce(getattr, names, importlib.import_module(module))) or ""


# Some frameworks use deprecated parts of others when they are imported.
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "adapter",
    [pytest.param(path.stem, marks=pytest.mark.array_library(path.stem)) for path in sorted(CLAIMS.glob("*.toml"))],
)
def test_phrases_are_in_the_installed_documentation(adapter: str) -> None:
    claimed = tomllib.loads((CLAIMS / f"{adapter}.toml").read_text(encoding="utf-8"))["version"]
    installed = resolve(adapter).about().version.partition("+")[0]
    if installed.split(".")[0] != claimed.split(".")[0]:
        pytest.skip(f"the claims are about {adapter} {claimed}, and {installed} is installed")
    claims = load_claims(adapter)

    drift = find_drift(claims, {one.docstring: read_docstring(one.docstring) for one in claims if one.docstring})

    # In another version, the rest of a docstring may have changed.
    assert [line for line in drift if installed == claimed or "no longer says" in line] == []
