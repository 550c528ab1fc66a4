"""Say which frameworks and array libraries this test session has.

A variable such as GRADCLIP_PYTHON_TORCH names a Python that has a framework. Without it, tests use this Python.
GRADCLIP_REQUIRE names frameworks and libraries, separated by commas, whose absence is an error.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import sys

import pytest

from gradclip_adapters.registry import BUILT_IN
from gradclip_conformance.run.environments.recipes import is_framework_here, read_recipes

RECIPES = {name: one for name, one in read_recipes().items() if name != "numpy" and not name.startswith("reference-")}

#: The module of each framework that has an adapter.
MODULES = {name: recipe.modules[0] for name, recipe in RECIPES.items()}

#: Keras runs on a backend, which must be installed, too. KERAS_BACKEND chooses it before Keras is imported.
BACKENDS = {name: recipe.modules[1] for name, recipe in RECIPES.items() if len(recipe.modules) > 1}

#: The adapters of packages on torch.
TORCH_BASED = [name for name in RECIPES if ".torch_based." in BUILT_IN[name]]

#: One parameter for each framework. A test that takes it is skipped if the framework is missing.
ADAPTERS = [pytest.param(name, marks=pytest.mark.framework(name), id=name) for name in MODULES]


def is_required(name: str) -> bool:
    """Tell whether the absence of a framework or library is an error in this session."""
    return name in os.environ.get("GRADCLIP_REQUIRE", "").split(",")


@functools.cache
def has_library(name: str) -> bool:
    """Tell whether this Python can import a library, by the name of its module or of its distribution."""
    if name in RECIPES and RECIPES[name].npm:
        return is_framework_here(name)
    modules = [MODULES.get(name, name).replace("-", "_")]
    if name in BACKENDS:
        modules.append(BACKENDS[name])
    try:
        return all(importlib.util.find_spec(module) is not None for module in modules)
    except ModuleNotFoundError:  # the parent package of a dotted name is missing
        return False


def has_framework(adapter: str) -> bool:
    """Tell whether this Python, or another one that a variable names, has an adapter's framework."""
    # Paddle 1.8 and 3 share the module `paddle`. Importing it to look for `fluid` takes seconds and warns.
    return name_variable(adapter) in os.environ or (adapter != "paddle-fluid" and has_library(adapter))


def find_python(adapter: str) -> str:
    """Return a Python that has an adapter's framework. Without one, skip the test, or fail it if required."""
    if named := os.environ.get(name_variable(adapter)):
        return named
    if has_framework(adapter):
        return sys.executable
    message = f"{MODULES[adapter]} is not installed in this Python; {name_variable(adapter)} can name one that has it"
    if is_required(adapter):
        pytest.fail(message)
    pytest.skip(message)


def name_variable(adapter: str) -> str:
    """Return the name of the environment variable that holds the path of a Python with the framework."""
    return f"GRADCLIP_PYTHON_{adapter.upper().replace('-', '_')}"
