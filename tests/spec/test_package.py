"""Check the public names of the package, their documentation, and the modules that importing it loads.

The programs in docstrings and in the manual run here, or are those of other tests.
"""

from __future__ import annotations

import doctest
import inspect
import os
import re
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

import gradclip_spec
from gradclip_adapters.operations import OPERATIONS

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
USE, OWN = "docs/how-to/use-the-reference.md", "docs/how-to/own-collectives.md"
NAMES = sorted(["ClipByGlobalNorm", "ClipByNorm", "ClipByValue", "global_norm", "norm_contribution", *OPERATIONS])


def test_public_names() -> None:
    assert gradclip_spec.__all__ == NAMES


def test_signatures() -> None:
    assert str(inspect.signature(gradclip_spec.global_norm)) == (
        "(grads: Any, /, *, norm_type: float = 2, need_clip: collections.abc.Callable[[str, typing.Any], bool] | "
        "collections.abc.Iterable[typing.Any] | bool | None = None, contributions: Any = None) -> Any"
    )
    for name, parameters in {
        "clip_by_value": "grads max min need_clip inplace",
        "clip_by_norm": "grads clip_norm norm_type eps need_clip inplace",
        "clip_by_global_norm": "grads clip_norm norm_type eps need_clip error_if_nonfinite inplace contributions",
    }.items():
        assert " ".join(inspect.signature(getattr(gradclip_spec, name)).parameters) == parameters


def test_importing_loads_only_numpy_and_array_api_compat() -> None:
    # Frameworks and compilers take long to import: the first call that needs one imports it.
    program = """
import sys, numpy, array_api_compat
before = set(sys.modules)
import gradclip_spec
print(*{name.partition(".")[0] for name in set(sys.modules) - before})
gradclip_spec.clip_by_global_norm([numpy.ones(3)], 1.0)
print(*{name.partition(".")[0] for name in sys.modules})
"""
    # Cache compiled modules, as an installation does.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=600, env=environment
    )
    loaded, after_a_call = (set(line.split()) for line in done.stdout.splitlines())

    assert loaded - sys.stdlib_module_names <= {"numpy", "array_api_compat", "gradclip_spec"}
    # Of the standard library, these take the longest.
    assert loaded.isdisjoint({"asyncio", "concurrent", "inspect", "logging", "pathlib", "subprocess", "urllib"})
    assert after_a_call.isdisjoint(
        {"torch", "jax", "dask", "cupy", "tensorflow", "paddle", "optree", "array_api_strict", "ml_dtypes"}
    )


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
