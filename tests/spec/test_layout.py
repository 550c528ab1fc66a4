"""The code of the reference stays small, shallow and without circles, and a small clip is quickly read."""

from __future__ import annotations

import ast
import functools
import sys
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


def imports_of(module: str) -> set[str]:
    """Return the modules of the package that a module imports, anywhere in it."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in MODULES else node.module for name in names} & MODULES.keys()
    return found - {module}


@functools.cache
def depth(module: str, below: tuple[str, ...] = ()) -> int:
    """Return the modules of the longest chain of imports that begins with one."""
    assert module not in below, f"{' -> '.join([*below, module])} is a circle"
    return 1 + max((depth(each, (*below, module)) for each in imports_of(module)), default=0)


def test_imports_are_shallow_and_have_no_circle() -> None:
    assert {module: depth(module) for module in MODULES if depth(module) > 8} == {}


def test_a_small_clip_runs_through_few_functions() -> None:
    arrays = [np.array([3.0], np.float32), np.ones((3, 4), np.float32)]
    gradclip_spec.clip_by_global_norm(arrays, 1.0)
    seen: set[tuple[str, str]] = set()

    def note(frame: FrameType, event: str, argument: Any) -> None:
        code = frame.f_code
        if event == "call" and str(PACKAGE) in code.co_filename and not code.co_name.startswith("<"):
            seen.add((code.co_filename, code.co_qualname))

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        gradclip_spec.clip_by_global_norm(arrays, 1.0)
    finally:
        sys.setprofile(before)
    assert len(seen) <= 30, sorted(seen)
    assert len({file for file, _ in seen}) <= 8
