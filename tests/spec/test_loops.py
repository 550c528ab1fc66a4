"""Check compiled loops: when they are used, their results, and the fallback if they cannot be compiled."""

from __future__ import annotations

import math
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradclip_spec import clip_by_global_norm, clip_by_norm, clip_by_value, global_norm

DTYPES = ["float16", "bfloat16", "float32", "float64"]


def run(program: str, folder: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a program in a fresh interpreter that looks for modules in a folder first."""
    path = os.pathsep.join([str(folder), *filter(None, sys.path)])
    environment = os.environ | {"PYTHONPATH": path, **variables}
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment)


# The other backends have no loops.
@pytest.mark.only_where(lambda backend: backend.name.startswith(("numpy", "torch")))
@pytest.mark.parametrize("norm_type", [1, 2, math.inf])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.array_library("numba")
def test_compiled_and_plain_loops_agree(backend: Any, dtype: str, norm_type: float, use_loops: Any) -> None:
    random = np.random.default_rng(3)
    values = [random.standard_normal(shape) for shape in [(70_000,), (300, 7), (), (0,), (5, 131)]]
    results = []
    for loops in ("compiled", "plain"):
        use_loops(loops)
        arrays = [backend.array(x, dtype) for x in values]
        clipped, norm = clip_by_global_norm(arrays, 1.0, norm_type=norm_type)
        results.append([norm, *clipped, *clip_by_norm(arrays, 0.5, norm_type=norm_type)])
    for one, other in zip(*results, strict=True):
        x, y = (backend.read(each).astype(np.float64) for each in (one, other))
        eps = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float32": 2.0**-23, "float64": 2.0**-52}[dtype]
        np.testing.assert_allclose(x, y, rtol=2 * eps, atol=2.0**-24 if dtype == "float16" else 0)


@pytest.mark.thorough(sample=3)
@pytest.mark.array_library("numba")
def test_nan_and_infinity_in_long_arrays(backend: Any, use_loops: Any) -> None:
    for loops in ("compiled", "plain"):
        use_loops(loops)
        for dtype in backend.dtypes:
            for bad in (math.nan, math.inf):
                values = np.ones(20_000)
                values[777] = bad
                for norm_type in (1, 2, math.inf):
                    assert str(
                        float(backend.read(global_norm(backend.array(values, dtype), norm_type=norm_type)))
                    ) == str(bad)
                clipped = backend.read(clip_by_global_norm(backend.array(values, dtype), 1.0)[0]).astype(float)
                assert math.isnan(clipped[777])
                assert math.isnan(clipped[0]) if math.isnan(bad) else clipped[0] == 0


@pytest.mark.array_library("numba")
def test_numba_is_imported_by_the_first_call_that_uses_it(tmp_path: Path) -> None:
    program = """
import sys, numpy, gradclip_spec
gradclip_spec.clip_by_global_norm([numpy.ones(10)], 1.0)
print("numba" in sys.modules)
gradclip_spec.clip_by_global_norm([numpy.ones(100_000)], 1.0)
print("numba" in sys.modules)
"""
    assert run(program, tmp_path).stdout.split() == ["False", "True"]


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("broken", ["raise ImportError('too old')", "__version__ = '0.1'"])
def test_broken_numba_gives_one_warning(broken: str, tmp_path: Path) -> None:
    tmp_path.joinpath("numba.py").write_text(broken, encoding="utf-8")
    program = """
import numpy, gradclip_spec
for _ in range(3):
    print(float(gradclip_spec.global_norm(numpy.full(40_000, 2.0))))
"""
    done = run(program, tmp_path)
    assert done.stdout.split() == ["400.0"] * 3
    assert done.stderr.count("because numba does not work here") == 1


@pytest.mark.thorough(sample=0)
@pytest.mark.array_library("numba")
def test_cache_folder_that_is_read_only_gives_one_warning(tmp_path: Path) -> None:
    program = """
import numba.core.caching as caching
(getattr(caching, "_CacheImpl", None) or caching.CacheImpl)._locator_classes = []
import numpy, gradclip_spec
print(float(gradclip_spec.global_norm(numpy.full(40_000, 2.0, numpy.float32))))
"""
    done = run(program, tmp_path)
    assert done.stdout.strip() == "400.0"
    assert done.stderr.count("found no folder to keep its compiled loops in") == 1


@pytest.mark.array_library("numba")
def test_loops_that_do_not_compile_give_one_warning(tmp_path: Path) -> None:
    program = """
import numba.core.dispatcher as dispatcher

def refuse(*arguments, **options):
    raise RuntimeError("no such processor")

dispatcher._FunctionCompiler.compile = refuse
import numpy, gradclip_spec
for _ in range(3):
    print(float(gradclip_spec.global_norm(numpy.full(40_000, 2.0))))
"""
    done = run(program, tmp_path, NUMBA_CACHE_DIR=str(tmp_path))
    assert done.stdout.split() == ["400.0"] * 3
    assert done.stderr.count("because numba does not work here (RuntimeError: no such processor)") == 1


@pytest.mark.parametrize("loops", ["compiled", "plain"])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_scalars_are_read_beside_long_arrays(dtype: type[np.floating[Any]], loops: str, use_loops: Any) -> None:
    use_loops(loops)
    grads = [np.zeros(20_000, dtype), *[dtype(3)] * 16, *[dtype(4)] * 16]

    assert float(global_norm(grads)) == 20

    clipped, _ = clip_by_global_norm(grads, 5.0)
    assert [float(x) for x in clipped[1:]] == [0.75] * 16 + [1.0] * 16
    assert [float(x) for x in clip_by_norm(grads[1:] * 2, 1.0)] == [1.0] * 64
    assert [float(x) for x in clip_by_value(grads[1:], 3.5)] == [3.0] * 16 + [3.5] * 16
