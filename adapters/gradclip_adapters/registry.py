"""The names of adapters, and how a name, a file or a function becomes an adapter.

`BUILT_IN` repeats the entry points of `pyproject.toml` because a host in a framework's own Python (3.7, nothing
installed) has no metadata to read them from; a test proves that the two agree.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from types import ModuleType
from typing import Any, Dict, Optional, Sequence

from .contract import DTYPES, OPERATIONS, Adapter

__all__ = ["BUILT_IN", "BadTarget", "MissingFramework", "installed", "kind_of", "resolve"]

BUILT_IN = {
    "numpy": "gradclip_adapters.reference:numpy",
    "reference-array-api-strict": "gradclip_adapters.reference:array_api_strict",
    "reference-dask": "gradclip_adapters.reference:dask",
    "reference-jax": "gradclip_adapters.reference:jax",
    "reference-torch": "gradclip_adapters.reference:torch",
    "torch": "gradclip_adapters.torch:TorchAdapter",
    "paddle": "gradclip_adapters.paddle:PaddleAdapter",
    "paddle-fluid": "gradclip_adapters.paddle_fluid:PaddleFluidAdapter",
    "tensorflow": "gradclip_adapters.tensorflow:TensorFlowAdapter",
}


class BadTarget(Exception):
    """What was named is no adapter; the text says what was looked for, what was found, and what to do."""


class MissingFramework(Exception):
    """The adapter exists, and this Python lacks the framework that it needs."""


def installed() -> Dict[str, str]:
    """All adapters by name, as "module:object": the built-in ones and the entry points `gradclip.adapters`."""
    names = dict(BUILT_IN)
    try:
        from importlib.metadata import entry_points
    except ImportError:  # Python 3.7 has no importlib.metadata
        return names
    try:
        found: Any = entry_points(group="gradclip.adapters")
    except TypeError:  # before Python 3.10 entry_points takes no group
        found = entry_points().get("gradclip.adapters", ())
    for entry in found:
        names.setdefault(entry.name, entry.value)
    return names


def kind_of(target: str) -> str:
    """Which door a target goes through: "file", "function" or "name"."""
    if target.endswith(".py"):
        return "file"
    return "function" if ":" in target else "name"


def resolve(
    target: str,
    operation: Optional[str] = None,
    dtypes: Optional[Sequence[str]] = None,
) -> Adapter:
    """Import what a target names and make the adapter.

    Parameters
    ----------
    target
        The name of an adapter, the path of a Python file that defines one, or "module:function".
    operation
        For a plain function: which of the three operations it performs.
    dtypes
        For a plain function: the dtypes it is called with.

    Raises
    ------
    BadTarget
        When there is no such adapter, file or function, or it is not what an adapter must be.
    MissingFramework
        When the adapter's framework cannot be imported.
    """
    kind = kind_of(target)
    if kind == "file":
        return _from_file(target)
    if kind == "function":
        return _from_function(target, operation, dtypes)
    names = installed()
    if target not in names:
        message = (
            "There is no adapter named {!r}. Known: {}. A file needs its ending .py, a function module:name.".format(
                target, ", ".join(sorted(names))
            )
        )
        raise BadTarget(message)
    module_name, _, attribute = names[target].partition(":")
    return _made(getattr(_import(module_name, target), attribute), target)


def _import(module_name: str, target: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except ImportError as error:
        missing = error.name or ""
        message = "The adapter {!r} cannot be imported in {}: {}".format(target, sys.executable, error)
        if missing == module_name or module_name.startswith(missing + "."):
            raise BadTarget(message) from error
        raise MissingFramework(message) from error


def _from_file(path: str) -> Adapter:
    if not os.path.exists(path):
        message = "There is no file {!r} (looked in {}).".format(path, os.getcwd())
        raise BadTarget(message)
    name = "_gradclip_adapter_" + os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        message = "{!r} is not a Python file that can be imported.".format(path)
        raise BadTarget(message)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # A file may import its neighbours, as a script can.
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        message = "The file {!r} needs what {} does not have: {}".format(path, sys.executable, error)
        raise MissingFramework(message) from error
    except Exception as error:
        message = "The file {!r} does not import: {}: {}".format(path, type(error).__name__, error)
        raise BadTarget(message) from error
    if hasattr(module, "adapter"):
        return _made(module.adapter, path)
    classes = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Adapter) and value.__module__ == name
    ]
    if len(classes) != 1:
        message = "{!r} must define `adapter`, or one subclass of gradclip_adapters.contract.Adapter; found {}.".format(
            path, len(classes)
        )
        raise BadTarget(message)
    return _made(classes[0], path)


def _from_function(target: str, operation: Optional[str], dtypes: Optional[Sequence[str]]) -> Adapter:
    module_name, _, attribute = target.partition(":")
    if not module_name or not attribute:
        message = "{!r} is not of the form module:function.".format(target)
        raise BadTarget(message)
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        found: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except AttributeError as error:
        message = "The module {!r} has no {!r}.".format(module_name, attribute)
        raise BadTarget(message) from error
    except Exception as error:
        message = "The module {!r} does not import: {}: {}".format(module_name, type(error).__name__, error)
        raise BadTarget(message) from error
    if isinstance(found, Adapter) or (inspect.isclass(found) and issubclass(found, Adapter)):
        return _made(found, target)
    if not callable(found):
        message = "{!r} is a {}, not a function.".format(target, type(found).__name__)
        raise BadTarget(message)
    if operation not in OPERATIONS:
        message = "A plain function needs --op, one of {}; got {!r}.".format(", ".join(OPERATIONS), operation)
        raise BadTarget(message)
    from .plain import PlainFunction

    wanted = tuple(dtypes) if dtypes else ("float16", "float32", "float64")
    unknown = sorted(set(wanted) - set(DTYPES))
    if unknown:
        message = "Unknown dtype {}; known: {}.".format(", ".join(unknown), ", ".join(DTYPES))
        raise BadTarget(message)
    return PlainFunction(found, operation, dtypes=wanted)


def _made(found: Any, target: str) -> Adapter:
    try:
        adapter = found() if callable(found) and not isinstance(found, Adapter) else found
    except ImportError as error:
        message = "The adapter {!r} cannot start in {}: {}".format(target, sys.executable, error)
        raise MissingFramework(message) from error
    if not isinstance(adapter, Adapter):
        message = "{!r} gives a {}, not a gradclip_adapters.contract.Adapter.".format(target, type(adapter).__name__)
        raise BadTarget(message)
    return adapter
