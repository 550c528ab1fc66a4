"""Check that the programs in docstrings and in the manual run and do what the text says."""

from __future__ import annotations

import doctest
import inspect
import re
import textwrap
from pathlib import Path

import pytest

import gradclip_spec
from gradclip_adapters.operations import PREFIXES

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
USE, OWN = "docs/how-to/use-the-reference.md", "docs/how-to/own-collectives.md"


@pytest.mark.parametrize("name", gradclip_spec.__all__)
def test_examples_of_docstrings(name: str) -> None:
    public = getattr(gradclip_spec, name)
    (found,) = (test for test in doctest.DocTestFinder(recurse=False).find(public, name, globs={name: public}))
    runner = doctest.DocTestRunner()
    printed: list[str] = []
    runner.run(found, out=printed.append)

    assert runner.summarize(verbose=False).attempted > 1, "there is no example"
    assert not printed, "".join(printed)


@pytest.mark.parametrize("name", gradclip_spec.__all__)
def test_every_section_is_there(name: str) -> None:
    public = getattr(gradclip_spec, name)
    text = inspect.getdoc(public) or ""
    for section in ("Parameters", "Raises", "Notes", "Examples"):
        assert f"\n{section}\n{'-' * len(section)}\n" in text
    for error in ("TypeError", "ValueError"):
        assert f"\n{error}\n    If " in text
    assert "\nSource: " in text
    if inspect.isfunction(public):
        assert "\nReturns\n-------\n" in text
        assert ".. math::" in text


def test_each_operation_has_a_page_of_its_rules() -> None:
    pages = {page.stem.removeprefix("rules-") for page in (ROOT / "docs" / "reference").glob("rules-*.md")}

    assert pages == set(PREFIXES)


@pytest.mark.parametrize(
    ("page", "module"),
    [
        *((USE, module) for module in ("torch_tensors", "distributed_torch", "distributed_jax", "distributed_dask")),
        *((OWN, module) for module in ("contributions", "distributed_torch", "distributed_jax")),
    ],
)
def test_manual_shows_what_is_tested(page: str, module: str) -> None:
    source = (HERE / f"test_{module}.py").read_text(encoding="utf-8")
    (tested,) = re.findall(rf"# {page}: begin\n(.*?)\n *# {page}: end", source, flags=re.DOTALL)

    assert f"```python\n{textwrap.dedent(tested)}\n```" in (ROOT / page).read_text(encoding="utf-8")
