"""Leave the tests of an adapter whose framework is missing to `nox -s "adapter(NAME)"`."""

from __future__ import annotations

from frameworks import MODULES, has_library, is_required

#: Files that import a framework at their top.
collect_ignore = [
    f"test_{name.replace('-', '_')}.py" for name in MODULES if not (has_library(name) or is_required(name))
]
