"""Check that claims are well formed and that they quote the installed documentation."""

from __future__ import annotations

import functools
import hashlib
import importlib
import inspect
import os
import tomllib
import warnings
from pathlib import Path
from typing import Any

import pytest

import gradclip_adapters

FOLDER = Path(gradclip_adapters.__file__).parent / "claims"
FILES = {path.stem: tomllib.loads(path.read_text(encoding="utf-8")) for path in sorted(FOLDER.glob("*.toml"))}
CLAIMS = [
    pytest.param(adapter, claim, id=f"{adapter}-{number}")
    for adapter, file in FILES.items()
    for number, claim in enumerate(file["claim"])
]
#: These claims quote a docstring. Only an installed framework can confirm them.
OF_DOCSTRINGS = [
    pytest.param(*each.values, id=each.id, marks=pytest.mark.array_library(each.values[0]))
    for each in CLAIMS
    if "docstring" in each.values[1]
]
KINDS = {"plain", "coefficient", "max-denominator", "min-numerator"}
EDGES = {"unchanged", "all-nan", "all-zero", "sign-flipped", "raises", "norm-dtype-of-input"}


def join_lines(text: str) -> str:
    """Return a text on one line."""
    return " ".join(text.split())


def test_there_are_claims() -> None:
    assert {"torch", "tensorflow"} <= set(FILES)


@pytest.mark.parametrize(("adapter", "claim"), CLAIMS)
def test_claim_is_well_formed(adapter: str, claim: dict[str, Any]) -> None:
    assert len({"formula", "predicts", "domain"} & claim.keys()) == 1
    assert claim["where"]
    assert 0 < len(claim["phrase"].split()) <= 15
    if "formula" in claim:
        assert claim["formula"]["kind"] in KINDS
    elif "predicts" in claim:
        assert claim["predicts"].split(":")[0] in EDGES


@pytest.mark.parametrize(("adapter", "claim"), OF_DOCSTRINGS)
def test_phrase_is_in_the_installed_documentation(adapter: str, claim: dict[str, Any]) -> None:
    module_name, *names = claim["docstring"].split(".")
    try:
        with warnings.catch_warnings():
            # Some frameworks warn when they are imported, which does not matter here.
            warnings.simplefilter("ignore")
            module = importlib.import_module(module_name)
    except ImportError as error:
        if adapter in os.environ.get("GRADCLIP_REQUIRE", "").split(","):
            raise
        pytest.skip(f"{FILES[adapter]['framework']} is not installed in this environment: {error}")

    installed, claimed = module.__version__.split("."), FILES[adapter]["version"].split(".")
    if installed[0] != claimed[0]:
        pytest.skip(f"the claim is about {adapter} {FILES[adapter]['version']}, and {module.__version__} is installed")
    text = inspect.getdoc(functools.reduce(getattr, names, module)) or ""

    assert claim["phrase"] in join_lines(text)
    if module.__version__.split("+")[0] == FILES[adapter]["version"]:
        assert hashlib.sha256(text.encode()).hexdigest() == claim["docstring_sha256"]
