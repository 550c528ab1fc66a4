"""Check the public names of the package, and the modules that importing it loads."""

from __future__ import annotations

import inspect
import os
import subprocess
import sys

import gradclip_spec
from gradclip_adapters.operations import OPERATIONS

NAMES = sorted(["ClipByGlobalNorm", "ClipByNorm", "ClipByValue", "global_norm", "norm_contribution", *OPERATIONS])


def test_public_names() -> None:
    assert gradclip_spec.__all__ == NAMES


def test_signatures() -> None:
    assert str(inspect.signature(gradclip_spec.global_norm)) == (
        "(grads: Any, /, *, norm_type: float = 2, need_clip: collections.abc.Callable[[str, typing.Any], bool] | "
        "collections.abc.Iterable[typing.Any] | bool | None = None, contributions: Any = None) -> Any"
    )
    assert list(inspect.signature(gradclip_spec.clip_by_value).parameters) == [
        "grads",
        "max",
        "min",
        "need_clip",
        "inplace",
    ]
    assert list(inspect.signature(gradclip_spec.clip_by_norm).parameters) == [
        *("grads", "clip_norm", "norm_type", "eps", "need_clip", "inplace"),
    ]
    assert list(inspect.signature(gradclip_spec.clip_by_global_norm).parameters) == [
        *("grads", "clip_norm", "norm_type", "eps", "need_clip", "error_if_nonfinite", "inplace"),
        "contributions",
    ]


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
