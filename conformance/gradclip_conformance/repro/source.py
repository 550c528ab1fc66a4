"""Read the functions that call a framework from `gradclip_adapters.scripts`, and write the lines that a script needs.

The modules are read as text and never imported, so the framework need not be here. All names that come from a record
are looked up, and never become code.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from gradclip_adapters import scripts
from gradclip_adapters.registry import BUILT_IN

FOLDER = Path(scripts.__file__).parent

#: The module of plain functions. No adapter has this name.
FUNCTION = "function"


@dataclass(frozen=True)
class Function:
    """A function that makes the call of an entry point, with the arguments that the entry point adds."""

    name: str
    #: The names of its parameters by keyword, and those of them without a default.
    parameters: tuple[str, ...]
    required: tuple[str, ...]
    #: The arguments before and after those of a case, as source, and the names that they use.
    first: tuple[str, ...]
    last: tuple[str, ...]
    names: frozenset[str]

    def write_call(self, gradients: str, arguments: Iterable[str]) -> str:
        """Return the call with the gradients and with the arguments of a case."""
        return f"{self.name}({', '.join([*self.first, gradients, *arguments, *self.last])})"


@dataclass(frozen=True, eq=False)
class Module:
    """The text of a module, and its statements."""

    text: str

    @functools.cached_property
    def statements(self) -> list[ast.stmt]:
        """The statements after the docstring."""
        return ast.parse(self.text).body[1:]

    @property
    def siblings(self) -> Iterator[str]:
        """Yield the names of the modules beside it whose functions it imports."""
        for statement in self.statements:
            if isinstance(statement, ast.ImportFrom) and statement.level and statement.module:
                yield statement.module

    @property
    def definitions(self) -> Iterator[ast.FunctionDef | ast.ClassDef]:
        """Yield the functions and classes."""
        return (one for one in self.statements if isinstance(one, (ast.FunctionDef, ast.ClassDef)))

    @property
    def setup(self) -> Iterator[ast.Expr | ast.Assign]:
        """Yield the statements that prepare the framework."""
        for statement in self.statements:
            if isinstance(statement, ast.Expr) or (
                isinstance(statement, ast.Assign) and not isinstance(statement.targets[0], ast.Name)
            ):
                yield statement

    def find_value(self, name: str) -> ast.expr | None:
        """Return the value of one of the module's names."""
        for statement in self.statements:
            if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == name:
                return statement.value
        return None

    def find_entry(self, table: str, name: str) -> ast.expr | None:
        """Return the value of a key in one of the module's tables."""
        if (found := self.find_value(table)) is None:
            return None
        assert isinstance(found, ast.Dict)
        for key, value in zip(found.keys, found.values, strict=True):
            # A key is a text, or the name of a function.
            if name in (getattr(key, "value", None), getattr(key, "id", None)):
                return value
        return None

    def find_compiled(self, name: str) -> ast.expr | None:
        """Return the value of an entry point for a call inside the framework's compiler."""
        entry = self.find_entry("ENTRY_POINTS", name)
        if self.find_value("COMPILER") is None or not isinstance(entry, ast.Call):
            return self.find_entry("COMPILED", name)
        compiled = [self.find_entry("COMPILER", ast.unparse(one)) or one for one in entry.args]
        return ast.Call(entry.func, compiled, entry.keywords) if compiled != entry.args else None

    def write(self, statement: ast.stmt) -> str:
        """Return the text of a statement, with the comments above it."""
        lines, start = self.text.splitlines(), statement.lineno - 1
        while lines[start - 1].startswith("#"):
            start -= 1
        return "\n".join(lines[start : statement.end_lineno])

    def write_imports(self, used: set[str], *, with_setup: bool) -> Iterator[str]:
        """Yield the imports of the used names, and the statements that prepare the framework, in their order."""
        setup = [*self.setup] if with_setup else []
        for statement in self.statements:
            if statement in setup:
                yield self.write(statement)
            elif isinstance(statement, (ast.Import, ast.ImportFrom)) and not getattr(statement, "level", 0):
                names = [one for one in statement.names if (one.asname or one.name.partition(".")[0]) in used]
                if names and len(names) == len(statement.names):
                    yield self.write(statement)
                elif names:
                    assert isinstance(statement, ast.ImportFrom)
                    yield ast.unparse(ast.ImportFrom(statement.module, names, 0))


@dataclass(frozen=True)
class Source:
    """A module of `gradclip_adapters.scripts` after the modules beside it whose functions it imports."""

    modules: tuple[Module, ...]

    @functools.cached_property
    def definitions(self) -> dict[str, ast.FunctionDef | ast.ClassDef]:
        """The functions and classes by their names. A module's own come before those that it imports."""
        return {one.name: one for module in self.modules for one in module.definitions}

    def find_function(self, entry_point: str, *, compiled: bool = False) -> Function | None:
        """Return the function of an entry point, or None if the module has none."""
        module = self.modules[-1]
        value = module.find_compiled(entry_point) if compiled else module.find_entry("ENTRY_POINTS", entry_point)
        if value is None:
            return None
        positional: list[ast.expr] = [value]
        last: list[ast.keyword] = []
        if isinstance(value, ast.Call):
            # It is `partial(function, ...)`.
            positional, last = value.args, value.keywords
        function = self.definitions[ast.unparse(positional[0])]
        assert isinstance(function, ast.FunctionDef)
        keywords = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
        return Function(
            function.name,
            tuple(one.arg for one in function.args.kwonlyargs),
            tuple(one.arg for one, default in keywords if default is None),
            tuple(map(ast.unparse, positional[1:])),
            tuple(map(ast.unparse, last)),
            frozenset(name for one in (*positional, *last) for name in _find_names(one)),
        )

    def write(self, names: Iterable[str], *imports: str) -> str:
        """Return the lines that prepare the framework, and that define these names and all that they use.

        `imports` are more lines below the imports.
        """
        used: set[str] = set()
        new = {*names, *(name for one in self.modules[-1].setup for name in _find_names(one))}
        while new:
            used |= new
            found = [one for name in new if (one := self.definitions.get(name)) is not None]
            new = {name for one in found for name in _find_names(one)} - used
        main, *others = reversed(self.modules)
        lines = [*main.write_imports(used, with_setup=True)]
        lines += [line for module in others for line in module.write_imports(used, with_setup=False)]
        defined = [
            module.write(one)
            for module in self.modules
            for one in module.definitions
            if one.name in used and self.definitions[one.name] is one
        ]
        return "\n\n\n".join(filter(None, ["\n".join(dict.fromkeys([*lines, *imports])), *defined]))


def has_source(adapter: str) -> bool:
    """Return whether one of our modules says how to call the framework of an adapter."""
    return any(True for _ in _list_stems(adapter))


def find_source(adapter: str, entry_point: str) -> Source | None:
    """Return the module that has an entry point of an adapter, or None if there is none."""
    for stem in _list_stems(adapter):
        source = read_source(stem)
        if source.find_function(entry_point) is not None:
            return source
    return None


@functools.cache
def read_source(stem: str) -> Source:
    """Return the module of this name, and those whose functions it imports."""
    module = Module((FOLDER / f"{stem}.py").read_text(encoding="utf-8"))
    before = [one for sibling in module.siblings for one in read_source(sibling).modules]
    return Source((*dict.fromkeys(before), module))


def _list_stems(adapter: str) -> Iterator[str]:
    """Yield the names of the modules of an adapter. Never use the adapter's name as a path.

    These are its own name, longer ones, and the name of the adapter's module, which may be that of several adapters.
    """
    if adapter not in BUILT_IN:
        return
    name, shared = adapter.replace("-", "_"), BUILT_IN[adapter].partition(":")[0].rpartition(".")[2]
    for path in sorted(FOLDER.glob("*.py")):
        if path.stem in (name, shared) or path.stem.startswith(f"{name}_"):
            yield path.stem


def _find_names(node: ast.AST) -> set[str]:
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
