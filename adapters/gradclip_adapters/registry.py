"""Find adapters: by a name, in a file, or as a function.

Adapters of other distributions have entry points. Ours are in a table of this module, because a host in a framework's
own Python runs from these files, without the metadata of an installed package.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, Mapping, Sequence

from .contract import DTYPES, OPERATIONS, Adapter, BadDeclaration, read_text
from .plain import DTYPES_OF_FUNCTIONS, FILE_MODULE, PlainFunction

#: The kinds of arrays that a function on a mesh can get.
ARRAYS = ("numpy", "torch")

#: Our adapters by name, as "module:object". Each has a table in `environments.toml`, too, which says what it needs.
BUILT_IN = {
    "numpy": "gradclip_adapters.reference:numpy",
    "reference-array-api-strict": "gradclip_adapters.reference:array_api_strict",
    "reference-cupy": "gradclip_adapters.reference:cupy",
    "reference-dask": "gradclip_adapters.reference:dask",
    "reference-jax": "gradclip_adapters.reference:jax",
    "reference-torch": "gradclip_adapters.reference:torch",
    "keras-torch": "gradclip_adapters.frameworks.keras:use_torch",
    "keras-tensorflow": "gradclip_adapters.frameworks.keras:use_tensorflow",
    "keras-jax": "gradclip_adapters.frameworks.keras:use_jax",
    "jax": "gradclip_adapters.frameworks.jax:JaxAdapter",
    "optax": "gradclip_adapters.frameworks.optax:OptaxAdapter",
    "nnabla": "gradclip_adapters.frameworks.nnabla:NNablaAdapter",
    "megengine": "gradclip_adapters.frameworks.megengine:MegEngineAdapter",
    "mindspore": "gradclip_adapters.frameworks.mindspore:MindSporeAdapter",
    "chainer": "gradclip_adapters.frameworks.chainer:ChainerAdapter",
    "thinc": "gradclip_adapters.frameworks.thinc:ThincAdapter",
    "mxnet": "gradclip_adapters.frameworks.mxnet:MXNetAdapter",
    "onnxruntime-training": "gradclip_adapters.frameworks.onnxruntime:ONNXRuntimeAdapter",
    "jittor": "gradclip_adapters.frameworks.jittor:JittorAdapter",
    "mlx": "gradclip_adapters.frameworks.mlx:MLXAdapter",
    "torch": "gradclip_adapters.frameworks.torch:TorchAdapter",
    "paddle": "gradclip_adapters.frameworks.paddle:PaddleAdapter",
    "paddle-fluid": "gradclip_adapters.frameworks.paddle_fluid:PaddleFluidAdapter",
    "tensorflow": "gradclip_adapters.frameworks.tensorflow:TensorFlowAdapter",
    "tensorflow-js": "gradclip_adapters.frameworks.tensorflow_js:TensorFlowJSAdapter",
    "accelerate": "gradclip_adapters.frameworks.torch_based.wrappers:use_accelerate",
    "fabric": "gradclip_adapters.frameworks.torch_based.wrappers:use_fabric",
    "torchtitan": "gradclip_adapters.frameworks.torch_based.wrappers:use_torchtitan",
    "fairscale": "gradclip_adapters.frameworks.torch_based.wrappers:use_fairscale",
    "skorch": "gradclip_adapters.frameworks.torch_based.wrappers:use_skorch",
    "mmengine": "gradclip_adapters.frameworks.torch_based.wrappers:use_mmengine",
    "transformers": "gradclip_adapters.frameworks.torch_based.transformers:TransformersAdapter",
    "fastai": "gradclip_adapters.frameworks.torch_based.wrappers:use_fastai",
    "timm": "gradclip_adapters.frameworks.torch_based.wrappers:use_timm",
    "opacus": "gradclip_adapters.frameworks.torch_based.opacus:OpacusAdapter",
    "deepspeed": "gradclip_adapters.frameworks.torch_based.deepspeed:DeepSpeedAdapter",
}


class BadTarget(Exception):
    """A target does not name an adapter. The text says what was looked for, what was found, and what to do."""


class MissingFramework(Exception):
    """The adapter exists, but this Python lacks the framework that it needs."""


#: The values of a host's option `--in-place`, which only plain functions use.
IN_PLACE: dict[str | None, bool | None] = {None: None, "yes": True, "no": False}


def list_installed() -> dict[str, str]:
    """Return all adapters by name, as "module:object": the built-in ones and the entry points `gradclip.adapters`."""
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


def find_kind(target: str) -> str:
    """Return the kind of a target: "file", "function" or "name"."""
    if target.endswith(".py"):
        return "file"
    # A Windows path has a colon, too. A function in such a file has two: "C:/x/clips.py:clip".
    return "function" if ":" in target else "name"


def resolve(  # noqa: PLR0913 - each is an option of its own
    target: str,
    operation: str | None = None,
    dtypes: Sequence[str] | None = None,
    in_place: bool | None = None,
    name: str | None = None,
    device: str | None = None,
    mesh: Mapping[str, int] | None = None,
    *,
    arrays: str = "numpy",
    partial: bool = False,
) -> Adapter:
    """Return the adapter that a target names.

    Parameters
    ----------
    target
        The name of an adapter, the path of a Python file that defines one, or "module:function".
    operation
        For a plain function: the operation that it performs.
    dtypes
        For a plain function: the dtypes of the gradients that it gets.
    in_place
        For a plain function: whether it writes its results into the arrays that it gets; None if that is unknown.
        Then an array may change only if it is itself the result.
    name
        For a plain function: the name that is shown.
    device
        The device on which the framework works, such as "cuda". None is the adapter's default.
    mesh
        For a function that clips on each rank of a mesh: the size of each axis.
    arrays
        For such a function: one of `ARRAYS`.
    partial
        For such a function: whether it takes gradients that are not yet summed.

    Raises
    ------
    BadTarget
        If there is no such adapter, file or function, or if it is not an adapter, or has no choice of devices.
    MissingDevice
        If the framework does not find the device.
    MissingFramework
        If the adapter's framework cannot be imported.
    """
    kind = find_kind(target)
    if kind == "file":
        return _load_file(target, device)
    if kind == "function":
        function = find_function(target)
        if isinstance(function, Adapter) or (inspect.isclass(function) and issubclass(function, Adapter)):
            return _make_adapter(function, target, device)
        if device is not None:
            raise BadTarget(_describe_one_device(target))
        return _wrap_function(function, target, operation, dtypes, in_place, name, mesh, arrays=arrays, partial=partial)
    names = list_installed()
    if target not in names:
        known = ", ".join(sorted(names))
        message = (
            f"There is no adapter named {target!r}. Known: {known}. A file ends in .py; a function is module:name."
        )
        raise BadTarget(message)
    module_name, _, attribute = names[target].partition(":")
    return _make_adapter(getattr(_import(module_name, target), attribute), target, device)


def _import(module_name: str, target: str) -> ModuleType:
    try:
        return importlib.import_module(module_name)
    except ImportError as error:
        missing = error.name or ""
        message = f"The adapter {target!r} cannot be imported in {sys.executable}: {error}"
        if missing == module_name or module_name.startswith(missing + "."):
            raise BadTarget(message) from error
        raise MissingFramework(message) from error


def _load_file(path: str, device: str | None) -> Adapter:
    module = _import_file(path)
    if hasattr(module, "adapter"):
        return _make_adapter(module.adapter, path, device)
    classes = [
        value
        for value in vars(module).values()
        if inspect.isclass(value) and issubclass(value, Adapter) and value.__module__ == module.__name__
    ]
    if len(classes) != 1:
        message = (
            f"{path!r} must define `adapter`, or one subclass of gradclip_adapters.contract.Adapter; "
            f"found {len(classes)}. To check a plain function, write MODULE:FN and --op."
        )
        raise BadTarget(message)
    return _make_adapter(classes[0], path, device)


def _import_file(path: str) -> ModuleType:
    """Import a file under a name of its own, so that `if __name__ == "__main__":` is false in it."""
    if not os.path.isfile(path):
        message = f"There is no file {path!r} (looked in {Path.cwd()})."
        raise BadTarget(message)
    name = FILE_MODULE + Path(path).stem
    spec = importlib.util.spec_from_file_location(name, path)
    # The name ends in ".py", so Python has a loader for it.
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    # A file may import its neighbours, as a script can.
    sys.path.insert(0, str(Path(path).absolute().parent))
    try:
        spec.loader.exec_module(module)
    except ImportError as error:
        message = f"The file {path!r} needs a module that {sys.executable} does not have: {error}"
        raise MissingFramework(message) from error
    except BadDeclaration:
        raise
    except Exception as error:
        message = f"The file {path!r} cannot be imported: {type(error).__name__}: {read_text(error)}"
        raise BadTarget(message) from error
    return module


def find_function(target: str) -> Any:
    """Return the function that "module:function" or "file.py:function" names."""
    where, _, attribute = target.rpartition(":")
    if not where or not attribute:
        message = f"{target!r} is not of the form module:function."
        raise BadTarget(message)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = _import_file(where) if where.endswith(".py") else importlib.import_module(where)
        for part in attribute.split("."):
            found = getattr(found, part)
    except AttributeError as error:
        message = f"The module {where!r} has no {attribute!r}."
        raise BadTarget(message) from error
    except (BadTarget, MissingFramework, BadDeclaration):
        raise
    except Exception as error:
        if isinstance(error, ModuleNotFoundError) and error.name == where:
            message = f"There is no module {where!r} (looked in {here}, and in what {sys.executable} has)."
            raise BadTarget(message) from error
        message = f"The module {where!r} cannot be imported: {type(error).__name__}: {read_text(error)}"
        raise BadTarget(message) from error
    return found


def _wrap_function(  # noqa: PLR0913 - the same options
    function: Any,
    target: str,
    operation: str | None,
    dtypes: Sequence[str] | None,
    in_place: bool | None,
    name: str | None,
    mesh: Mapping[str, int] | None,
    *,
    arrays: str,
    partial: bool,
) -> Adapter:
    if not callable(function):
        message = f"{target!r} is a {type(function).__name__}, not a function."
        raise BadTarget(message)
    if operation not in OPERATIONS:
        message = f"A plain function needs --op, one of {', '.join(OPERATIONS)}; got {operation!r}."
        raise BadTarget(message)
    from .mesh_function import MeshFunction, TorchFunction

    wanted = tuple(dtypes) if dtypes else DTYPES_OF_FUNCTIONS
    unknown = sorted(set(wanted) - set(DTYPES))
    if unknown:
        message = f"Unknown dtype {', '.join(unknown)}; known: {', '.join(DTYPES)}."
        raise BadTarget(message)
    try:
        if mesh is not None and arrays == "torch":
            return TorchFunction(function, operation, mesh, wanted, in_place, name, target, partial=partial)
        if mesh is not None:
            return MeshFunction(function, operation, mesh, wanted, in_place, name, partial=partial)
        return PlainFunction(function, operation, wanted, in_place, name)
    except TypeError as error:
        raise BadTarget(str(error)) from error
    except ImportError as error:
        raise MissingFramework(str(error)) from error


def _make_adapter(found: Any, target: str, device: str | None) -> Adapter:
    is_factory = callable(found) and not isinstance(found, Adapter)
    if device is not None and not (is_factory and "device" in inspect.signature(found).parameters):
        raise BadTarget(_describe_one_device(target))
    keywords = {} if device is None else {"device": device}
    try:
        adapter = found(**keywords) if is_factory else found
    except ImportError as error:
        message = f"The adapter {target!r} cannot start in {sys.executable}: {error}"
        raise MissingFramework(message) from error
    if not isinstance(adapter, Adapter):
        message = f"{target!r} gives a {type(adapter).__name__}, not a gradclip_adapters.contract.Adapter."
        raise BadTarget(message)
    return adapter


def _describe_one_device(target: str) -> str:
    return f"{target!r} has no choice of devices: leave out --device."
