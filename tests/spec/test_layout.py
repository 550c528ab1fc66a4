"""Check that the imports of the reference have no circle."""

from __future__ import annotations

import ast
import graphlib
from pathlib import Path

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


def test_imports_have_no_circle() -> None:
    imports = {module: list_imports(module) for module in MODULES}

    # If there is a circle, the order raises an error that names it.
    order = list(graphlib.TopologicalSorter(imports).static_order())

    assert set(order) == set(MODULES)
