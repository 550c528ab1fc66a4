"""Run a function in its own process, so that a hang, an exit, a crash or too much memory ends only that process."""

from __future__ import annotations

import ast
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from gradclip_adapters.contract import BadDeclaration, Call, EntryPoint
from gradclip_adapters.mesh import Mesh
from gradclip_adapters.mesh_function import FEATURES_ON_A_MESH
from gradclip_adapters.operations import OPERATIONS
from gradclip_adapters.plain import DTYPES_OF_FUNCTIONS, FEATURES_OF_EVERY_FUNCTION
from gradclip_adapters.wire import check_entry_points

from ..judge.model import Answer, Connection, Description, Died, LoadError, StartError, TimedOut
from ..known.files import find_module_file
from .host_process import HostProcess, build_host_command
from .in_process import WithoutProcess
from .probing import FOUND

#: This variable marks the host of an isolated function. A check must not start there while the module is imported.
HOST_MARK = "GRADCLIP_ISOLATED_FUNCTION"

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}

#: The smallest limit of memory, in bytes. A Python with NumPy takes about a tenth of this.
SMALLEST = 256 << 20


class CannotIsolate(Exception):
    """A function cannot be imported in another process. The text is the reason, a clause in lower case."""


@dataclass(frozen=True)
class PlainOptions:
    """The options of a host with a plain function."""

    operation: str
    dtypes: Sequence[str] = ()
    in_place: bool | None = None
    name: str | None = None
    memory: int | None = None
    #: The size of each axis of the mesh, for a function that clips on each rank of one.
    mesh: Mapping[str, int] | None = None
    #: The arrays that a function on a mesh gets: one of `gradclip_adapters.registry.ARRAYS`.
    arrays: str = "numpy"
    #: Whether such a function takes gradients that are not yet summed.
    partial: bool = False

    def list_arguments(self) -> list[str]:
        """Return the arguments of the host."""
        words = ["--op", self.operation]
        for dtype in self.dtypes:
            words += ["--dtype", dtype]
        if self.in_place is not None:
            words += ["--in-place", "yes" if self.in_place else "no"]
        if self.name is not None:
            words += ["--name", self.name]
        if self.memory is not None:
            words += ["--memory", str(self.memory)]
        if self.mesh is not None:
            words += ["--mesh", str(Mesh(self.mesh)), "--arrays", self.arrays]
        if self.partial:
            words += ["--partial"]
        return words


class NeverLoaded(WithoutProcess):
    """A connection to a function whose module hangs or ends the process while it is loaded.

    The hang or the exit is the answer to each call, so that the run has a record. The signature is unknown, so
    abilities that it would show are `unsupported`.
    """

    def __init__(self, target: str, options: PlainOptions, error: LoadError, timeout: float) -> None:
        general = FEATURES_OF_EVERY_FUNCTION if options.mesh is None else FEATURES_ON_A_MESH
        features = {*general} | ({FOUND} if OPERATIONS[options.operation].returns_norm else set())
        dtypes = tuple(options.dtypes) or DTYPES_OF_FUNCTIONS
        entry_point = EntryPoint(
            options.name or target, options.operation, dtypes, tuple(sorted(features)), (2.0,), mesh=options.mesh
        )
        environment = {name: str(error.loading[name]) for name in ("python", "platform")}
        self.description = Description(target, "", environment, check_entry_points([entry_point]))
        text = str(error)
        self._answer: Answer = TimedOut(timeout, text) if error.kind == "start-timeout" else Died(text)

    def ask(self, call: Call, timeout: float) -> Answer:
        """Return the hang or the exit of the module as the answer to any call."""
        del call, timeout
        return self._answer


def connect_named_function(command: Sequence[str], target: str, options: PlainOptions, timeout: float) -> Connection:
    """Start a host for a target "module:function", whose module must load within the time limit of a case.

    Raises
    ------
    StartError
        If the host does not start. If it starts, but ends or hangs while it loads the module, no error is raised: the
        connection gives that as the answer to each call.
    """
    try:
        command = [*command, target, *options.list_arguments()]
        return HostProcess(command, call_seconds=timeout, load_seconds=timeout)
    except LoadError as error:
        try:
            return NeverLoaded(target, options, error, timeout)
        except BadDeclaration:
            raise error from None


def connect_function(function: Callable[..., Any], options: PlainOptions, timeout: float) -> HostProcess:
    """Start a host that imports a function.

    Raises
    ------
    CannotIsolate
        If no other process can import it.
    """
    target = import_target(function)
    if importlib.util.find_spec("fastjsonschema") is None:
        msg = "messages between processes are checked by fastjsonschema, which is not installed"
        raise CannotIsolate(msg)
    # The host gets the same path for modules as this process.
    path = os.pathsep.join(str(Path(folder).absolute()) for folder in sys.path)
    environment: Mapping[str, str] = {"PYTHONPATH": path, HOST_MARK: "1"}
    command = [*build_host_command(), target, *options.list_arguments()]
    try:
        return HostProcess(command, environment, call_seconds=timeout, load_seconds=timeout)
    except StartError as error:
        msg = f"another process cannot import it: {error}"
        raise CannotIsolate(msg) from error


def import_target(function: Callable[..., Any]) -> str:
    """Return "module:function" or "file.py:function", by which another process imports the very same function.

    Raises
    ------
    CannotIsolate
        If there is no such name.
    """
    name, attribute = getattr(function, "__module__", None), getattr(function, "__qualname__", None)
    if not isinstance(name, str) or not isinstance(attribute, str):
        msg = f"a {type(function).__name__} has no name by which it can be imported"
        raise CannotIsolate(msg)
    if "<" in attribute:
        msg = "a lambda, or a function inside a function, cannot be imported"
        raise CannotIsolate(msg)
    module = sys.modules.get(name)
    found: Any = module
    for part in attribute.split("."):
        found = getattr(found, part, None)
    if module is None or found is not function:
        msg = f"{name}:{attribute} names something else"
        raise CannotIsolate(msg)
    return f"{_find_script(module) if name == '__main__' else _find_module(module, name)}:{attribute}"


def _find_module(module: ModuleType, name: str) -> str:
    """Return the name of a module that another process finds in the same file."""
    found = find_module_file(name)
    here = getattr(module, "__file__", None)
    if here is None or found is None or not Path(found).exists() or not Path(here).samefile(found):
        msg = f"another process would not find the module {name!r} where this one did"
        raise CannotIsolate(msg)
    return name


def _find_script(module: ModuleType) -> str:
    """Return the file of the running script, if importing it only defines things."""
    file = getattr(module, "__file__", None)
    if file is None or not Path(file).is_file() or Path(file).suffix != ".py":
        msg = "the running program is not a file that can be imported"
        raise CannotIsolate(msg)
    if not _has_only_definitions(Path(file)):
        msg = (
            "importing the script would run it again: put everything except definitions and constants "
            'under `if __name__ == "__main__":`'
        )
        raise CannotIsolate(msg)
    return str(Path(file).resolve())


def _has_only_definitions(path: Path) -> bool:
    """Return whether a script holds only imports, definitions, constants and a guarded main part."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return False
    return all(_is_harmless(statement) for statement in tree.body)


def _is_harmless(statement: ast.stmt) -> bool:
    if isinstance(statement, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return True
    if isinstance(statement, ast.Expr):
        return isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        return not any(isinstance(node, ast.Call) for node in ast.walk(statement))
    if isinstance(statement, ast.If):
        return _is_main_guard(statement.test) and not statement.orelse
    return False


def _is_main_guard(test: ast.expr) -> bool:
    return ast.unparse(test) in ("__name__ == '__main__'", "'__main__' == __name__")


def parse_size(text: str | int) -> int:
    """Return a number of bytes: a whole number, or one with K, M, G or T, such as "4G".

    Raises
    ------
    ValueError
        If the text is not a size, or if the size is too small for a host to start.
    """
    matched = re.fullmatch(r"([0-9]{1,15})\s*([KMGT]?)(?:i?B)?", str(text).strip(), re.IGNORECASE)
    if matched is None:
        msg = f"{text!r} is not a size of memory; write 4G or 512M."
        raise ValueError(msg)
    size = int(matched[1]) * UNITS[matched[2].upper()]
    if not SMALLEST <= size < 1 << 63:
        how = "little: a host needs at least 256M to start" if size < SMALLEST else "much"
        msg = f"{text} of memory is too {how}."
        raise ValueError(msg)
    return size
