"""Leave out the tests of adapters whose framework is missing. `nox -s "adapter(NAME)"` runs them."""

from __future__ import annotations

from frameworks import MODULES, has_library, is_required

MISSING = [name for name in MODULES if not (has_library(name) or is_required(name))]

#: The test files that import a missing framework.
collect_ignore = [f"test_{name.replace('-', '_')}.py" for name in MISSING]
