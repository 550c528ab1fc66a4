"""Check that the imports of the reference are shallow and have no circle, and that a small clip runs few functions."""

from __future__ import annotations

import ast
import graphlib
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np

import gradclip_spec

PACKAGE = Path(str(gradclip_spec.__file__)).parent
MODULES = {
    ".".join(["gradclip_spec", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(".__init__"): path
    for path in PACKAGE.rglob("*.py")
    if "rules" not in path.parts
}


def list_imports(module: str) -> set[str]:
    """Return the modules of the package that a module imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in names} & MODULES.keys()
    return found - {module}


def test_imports_are_shallow_and_have_no_circle() -> None:
    imports = {module: list_imports(module) for module in MODULES}
    depths: dict[str, int] = {}

    # The order raises an error that names the circle, if there is one.
    for module in graphlib.TopologicalSorter(imports).static_order():
        depths[module] = 1 + max((depths[each] for each in imports[module]), default=0)

    assert {module: depth for module, depth in depths.items() if depth > 9} == {}


def list_functions(call: Callable[[], Any]) -> set[tuple[str, str]]:
    """Return the functions of the package that a call runs, by file and name, after all imports."""
    call()
    seen: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and str(PACKAGE) in code.co_filename and not code.co_name.startswith("<"):
            seen.add((code.co_filename, code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        call()
    finally:
        sys.setprofile(before)
    return seen


def test_small_clip_runs_few_functions() -> None:
    arrays = [np.array([3.0], np.float32), np.ones((3, 4), np.float32)]
    seen = list_functions(lambda: gradclip_spec.clip_by_global_norm(arrays, 1.0))
    assert len(seen) <= 30, sorted(seen)
    assert len({file for file, _ in seen}) <= 8


def test_torch_clip_in_place_runs_few_functions(require: Any) -> None:
    torch = require("torch")
    seen = list_functions(lambda: gradclip_spec.clip_by_global_norm([torch.ones(200_000)], 1.0, inplace=True))
    assert 20 < len(seen) <= 30, sorted(seen)
    assert len({file for file, _ in seen}) <= 9
