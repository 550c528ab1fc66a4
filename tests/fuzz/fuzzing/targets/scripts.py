"""Fuzz the scripts made from records. Only our own functions may give code. A record may give only constants."""

from __future__ import annotations

import ast
import functools
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from click.testing import CliRunner
from hypothesis import strategies as st

from gradclip_conformance.cli import gradclip
from gradclip_conformance.repro.script import NoScript, write_script
from gradclip_reports.records import Cell, Header, RecordError, read_runs

from ..documents import FEATURES, read_lines
from ..drawings import check_text
from ..guards import enter_folder
from ..mutation import draw_changes
from ..stand_ins import execute
from ..target import Target, require
from ..texts import CANARY
from .records import write_record

FUNCTION = "my_module:clip"
#: The adapters that have scripts, and a plain function, which has scripts, too.
ADAPTERS = ("torch", "tensorflow", "paddle", FUNCTION)


def _select_one_cell(adapter: str, number: int) -> list[Any]:
    """Return the header and one cell of a record."""
    header, *cells, _ = read_lines(adapter)
    return [header, cells[number % len(cells)]]


EXAMPLES = st.tuples(st.sampled_from(ADAPTERS), st.integers(0, 60)).flatmap(
    lambda chosen: st.fixed_dictionaries(
        {
            "adapter": st.just(chosen[0]),
            "cell": st.just(chosen[1]),
            # Make few changes at once, because a refused record tests nothing.
            "changes": draw_changes(_select_one_cell(*chosen), largest=2, times=(2, 20, 5_000)),
            "command": st.booleans(),
        }
    )
)


def check(example: Any) -> None:
    """Make the script of a changed cell, and compare its code with that of unchanged cells."""
    base = _select_one_cell(example["adapter"], example["cell"])
    with enter_folder() as place:
        path = place / "record.jsonl"
        path.write_bytes(write_record(base, example["changes"]).encode())
        try:
            (run,) = read_runs(path)
        except (RecordError, ValueError):
            return
        if not run.cells:
            return
        try:
            text = write_script(run.header, run.cells[0])
        except NoScript as reason:
            require(str(reason), "a script is refused without a reason")
            return
        finally:
            if example["command"]:
                _check_command(path, run.cells[0].case)
        check_script(text, run.header, example["adapter"])


def _check_command(path: Path, case: str) -> None:
    done = CliRunner().invoke(gradclip, ["repro", str(path), "-o", "script.py", "--", case])
    require(isinstance(done.exception, SystemExit | None), f"`gradclip repro` raised {done.exception!r}")
    require(done.exit_code in (0, 2, 3), f"`gradclip repro` gives exit code {done.exit_code}")
    check_text(done.stderr, "standard error")


def check_script(text: str, header: Header, adapter: str) -> None:
    """Require that a script has no code that scripts of unchanged records lack, and execute it."""
    tree = ast.parse(text)
    compile(tree, "script", "exec")
    own = _list_own_words(header.adapter)
    # A change can replace the adapter by a plain function. Its script is then that of a plain function.
    known = list_vocabulary(adapter, FUNCTION if own else adapter)
    for word in list_words(tree):
        require(word in known or word in own, f"the script has {word} in its code:\n{text[:1500]}")
    for line in text.splitlines():
        require(line.isprintable() or not line, f"the script has the line {line!r}")
    if "ThreadPool" not in text:
        execute(text)
        require(not Path(CANARY).exists(), f"the script has executed a payload:\n{text[:1500]}")


def list_words(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield the code of a script without its constants: statements, names, calls and imports."""
    for node in ast.walk(tree):
        yield "syntax", type(node).__name__
        match node:
            case ast.Name(name):
                yield "name", name
            case ast.Attribute():
                yield "attribute", node.attr
            case ast.Call(function, _, keywords):
                yield "call", _name_function(function)
                yield from (("keyword", str(keyword.arg)) for keyword in keywords)
            case ast.alias(name, alias):
                yield "import", f"{name} {alias}"
            case ast.ImportFrom(module):
                yield "from", str(module)
            case ast.FunctionDef(name):
                yield "def", name


def _name_function(function: ast.expr) -> str:
    """Return the name of the called function, or the type of the node if it has none."""
    match function:
        case ast.Name(name):
            return name
        case ast.Attribute(value, attribute):
            return f"{_name_function(value)}.{attribute}"
    return type(function).__name__


def _list_own_words(adapter: str) -> set[tuple[str, str]]:
    """Return the code that the name of a plain function may add: an import of its module and a call."""
    module, colon, name = adapter.partition(":")
    if not colon or not all(part.isidentifier() for part in f"{module}.{name}".split(".")):
        return set()
    parts = {("attribute", part) for part in f"{module}.{name}".split(".")}
    top = ("name", module.split(".", maxsplit=1)[0])
    return {*parts, top, ("import", f"{module} None"), ("call", f"{module}.{name}")}


@functools.cache
def list_vocabulary(document: str, adapter: str) -> frozenset[tuple[str, str]]:
    """Return the code in the scripts of all unchanged cells of a record.

    The record is read as one of the given adapter. Each cell gives one script for each set of features, and another one
    if it breaks its own rule, which a change may make of it.
    """
    header, *cells, _ = read_lines(document, whole=True)
    header["adapter"] = adapter
    found = set()
    broken = [{**cell, "breaks": cell["rule"]} for cell in cells]
    for features, cell in itertools.product(_list_subsets(FEATURES), [*cells, *broken]):
        able = [{**subject, "features": list(features)} for subject in header["subjects"]]
        try:
            text = write_script(Header.from_json({**header, "subjects": able}), Cell.from_json(cell))
        except NoScript:
            continue
        found |= set(list_words(ast.parse(text)))
    return frozenset(found)


def _list_subsets(features: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Yield the sets of features to try: all, none, each one alone, and all without one.

    A changed record may lack some of them.
    """
    yield from (tuple(features), ())
    for one in features:
        yield (one,)
        yield tuple(each for each in features if each != one)


TARGET = Target(EXAMPLES, check)
