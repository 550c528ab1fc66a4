"""Check that verbs refuse records that they cannot trust, and that no record can put code into a script.

A refusal has a message and no traceback. The code of an attack would leave a folder.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import json
import os
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import numpy as np
import pytest
from click.testing import Result
from runs import run_command, run_rules
from sample_runs import write_record_text

from gradclip_adapters.plain import PlainFunction
from gradclip_adapters.registry import resolve
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.cases.literals import write_docstring, write_literal
from gradclip_conformance.repro import source
from gradclip_conformance.repro.script import NoScript, write_script
from gradclip_reports.records import Cell, Header
from gradclip_reports.render import FORMATS

Lines = list[dict[str, Any]]

#: Each verb that reads a record, with the record, its case and a folder to write as `{0}`, `{1}` and `{2}`.
VERBS = [
    *(["summary", "{0}", "--format", name] for name in FORMATS),
    ["summary", "-v", "{0}"],
    *(["diff", "{0}", "{0}", "--format", name] for name in ("terminal", "markdown", "json")),
    ["repro", "{0}", "{1}"],
    ["expectations", "update", "{0}"],
    ["report", "{0}", "-o", "{2}"],
]
CASE_OF_VERBS = "norm.at-threshold/three-four-five/float32"


@pytest.fixture(scope="module")
def record() -> str:
    """Return the record of a function that returns half of the right result."""

    def clip(grads: list[Any], *, clip_norm: float) -> list[Any]:
        return [(grad * 0.5).astype(grad.dtype) for grad in grads]

    adapter = PlainFunction(clip, "clip_by_norm", dtypes=("float32",), name="clips.py:clip")
    return write_record_text([run_rules(adapter, "norm.at-*", name="clips.py:clip")])


@pytest.fixture
def lines(record: str) -> Lines:
    """Return the lines of the record, which a test may change."""
    lines = [json.loads(line) for line in record.splitlines()]
    assert [line["record"] for line in lines[-2:]] == ["finding", "footer"]
    return lines


def run(verb: list[str], path: Path) -> Result:
    """Run a verb on a record, and require that it ends without a traceback and without a control character."""
    result = run_command(*(word.format(path, CASE_OF_VERBS, path.parent / "site") for word in verb), color=True)
    assert "Traceback" not in result.output
    for text in (result.stdout, result.stderr):
        assert [character for character in text if not character.isprintable() and character != "\n"] == []
    return result


def write(lines: Lines, path: Path) -> Path:
    path.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")
    return path


def break_off(lines: Lines) -> None:
    """Make a run that was interrupted before its last cell."""
    cell = next(line for line in reversed(lines) if line["record"] == "cell")
    lines.remove(cell)
    lines[:] = [line for line in lines if line["record"] != "finding"]
    footer = lines[-1]
    footer["counts"][cell["status"]] -= 1
    footer["counts"] = {name: count for name, count in footer["counts"].items() if count}
    footer |= {
        "finished": footer["finished"] - 1,
        "incomplete": True,
        "not_run": [[cell["subject"], cell["case"]]],
    }


#: A fault that only complete runs lack, and one that no record may have. tests/reports/test_records.py has the others.
FAULTS: dict[str, tuple[Callable[[Lines], object], str]] = {
    "incomplete": (break_off, r"the run of 'clips\.py:clip' was broken off: 1 of \d+ cells did not run"),
    "no footer": (lambda lines: lines.pop(), "has no footer: it was cut short"),
}


@pytest.mark.thorough(sample=6)
@pytest.mark.parametrize("verb", VERBS, ids=" ".join)
@pytest.mark.parametrize("fault", FAULTS)
def test_record_that_cannot_be_trusted_is_refused_by_name(
    verb: list[str], fault: str, lines: Lines, tmp_path: Path
) -> None:
    spoil, says = FAULTS[fault]
    spoil(lines)

    result = run(verb, write(lines, tmp_path / "record.jsonl"))

    assert result.exit_code in (2, 3)
    assert "record.jsonl" in result.stderr
    assert re.search(says, result.stderr), result.stderr
    assert result.stdout == ""
    assert [path.name for path in tmp_path.iterdir()] == ["record.jsonl"]


#: The attack makes a folder, in one expression without a quotation mark, a space or a line break.
MARK = "executed"
CODE = f"__import__(chr(111)+chr(115)).mkdir({'+'.join(f'chr({ord(letter)})' for letter in MARK)})"
#: A header and one cell.
Parts = tuple[Header, Cell]
CASE = "global-norm.scaled-above/three-four-five/float32"


@pytest.fixture(scope="module")
def parts() -> Parts:
    """Return the header and one failing cell of a plain function."""

    def clip(grads: list[Any], *, clip_norm: float) -> list[Any]:
        return [np.asarray(grad * 0.75, grad.dtype) for grad in grads]

    adapter = PlainFunction(clip, "clip_by_global_norm", name="clip_module:clip")
    run = run_rules(adapter, CASE, name="clip_module:clip")
    return run.header, run.cells[0]


def rename(header: Header, cell: Cell, entry_point: str, adapter: str | None = None) -> Parts:
    """Return the same record with another entry point, and with another adapter if one is given."""
    (declared,) = header.subjects
    header = replace(header, subjects=[{**declared, "name": entry_point}])
    return (replace(header, adapter=adapter) if adapter else header), replace(cell, subject=entry_point)


@pytest.fixture
def is_executed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], bool]:
    """Return a function that runs a script, and tells whether the attack left its folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("torch", "clip_module"):
        monkeypatch.setitem(sys.modules, name, MagicMock())

    def run(script: str) -> bool:
        with contextlib.suppress(Exception):
            exec(compile(script, "script.py", "exec"), {"__name__": "__main__"})
        return (tmp_path / MARK).exists()

    return run


def test_script_with_the_code_leaves_the_mark(parts: Parts, is_executed: Callable[[str], bool]) -> None:
    """Show that the tests below can fail. The injected code makes the folder that they look for."""
    script = write_script(*parts)

    assert not is_executed(script)
    assert is_executed(f"{CODE}\n{script}")


TEXTS = [
    f'2.13""";{CODE};"""',
    f'2.13\n"""\n{CODE}\n"""',
    f'2.13\\""";{CODE};"""',
    "2.13\\",
    f"2.13\r{CODE}\r",
    f'2.13\u2028""";{CODE};"""',
    f'2.13\x0c""";{CODE};"""',
    f'2.13\x00""";{CODE};"""',
    f'2.13\ud800""";{CODE};"""',
    f'2.13\u202e""";{CODE};"""',
    '"' * 7,
    "x" * 111 + "\x1b" * 40,
    "\\N{BULLET}\\x",
]


@pytest.mark.parametrize("text", TEXTS)
def test_text_of_the_framework_cannot_end_the_docstring(
    text: str, parts: Parts, is_executed: Callable[[str], bool]
) -> None:
    header, cell = parts
    script = write_script(replace(header, framework={"name": text, "version": text}), cell)

    assert not is_executed(script)
    assert isinstance(ast.parse(script).body[0], ast.Expr)
    assert all(line.isprintable() for line in script.split("\n"))
    assert ast.literal_eval(write_literal(text)) == text
    assert isinstance(ast.literal_eval(write_docstring([text, "", text])), str)


#: Names of functions, with code where a script could run it.
FUNCTIONS = [
    f"os;{CODE}#:f",
    f"os:getcwd;{CODE}#",
    f"os:getcwd({CODE})or(",
    f"os:getcwd\n{CODE}\n",
    f"a:b\nimport os\n{CODE}",
    f"os as x;{CODE};import os:f",
    "os:",
    ":getcwd",
    "os:a..b",
    "os:class",
    "import:x",
    f"os:f[{CODE}]",
    "os:\uff4fs",
    "os:<lambda>",
    "os:make.<locals>.clip",
]


@pytest.mark.parametrize("name", FUNCTIONS)
def test_entry_point_of_a_function_is_only_text(name: str, parts: Parts, is_executed: Callable[[str], bool]) -> None:
    # The script imports the function by the name that was checked.
    with contextlib.suppress(NoScript):
        assert not is_executed(write_script(*rename(*parts, entry_point=name)))


def test_known_entry_point_has_a_script(parts: Parts) -> None:
    header, cell = rename(*parts, entry_point="torch.nn.utils.clip_grad_norm_[foreach=None]", adapter="torch")

    assert re.search(
        r"\(torch\.nn\.utils\.clip_grad_norm_, gradients, clip_norm=[0-9.]+, foreach=None\)", write_script(header, cell)
    )


def declare(header: Header, cell: Cell, **members: Any) -> Parts:
    (declared,) = header.subjects
    return replace(header, subjects=[{**declared, **members}]), cell


def show_answer(header: Header, cell: Cell, shown: Any) -> Parts:
    """Return a record of another rule, whose answers a script writes out."""
    case = next(each for each in list_all_cases() if each.rule == "global-norm.tensor-order" and "float32" in each.id)
    answers = {"gradients": [shown] * len(case.gradients)}
    changed = replace(cell, case=case.id, rule=case.rule, input=None, expected=answers, observed=answers)
    return header, changed


#: Changes of a record that would put code into its script, and what is said about them.
REFUSED: list[tuple[Callable[[Header, Cell], Parts], str]] = [
    *(
        (functools.partial(rename, entry_point=name, adapter=name), "no script can import it|must declare the ent")
        for name in FUNCTIONS
    ),
    *(
        (functools.partial(rename, entry_point=name, adapter="torch"), r"adapters\.scripts calls|must declare the")
        for name in (
            f"torch.nn.utils.clip_grad_norm_[foreach=None) and 0 or ({CODE}]",
            f"torch.nn.utils.clip_grad_norm_[foreach={CODE}]",
            f"{CODE};torch.nn.utils.clip_grad_norm_[foreach=None]",
            "torch.nn.utils.clip_grad_norm_[foreach=None]\n",
            f"torch.nn.utils.clip_grad_norm_[{CODE}][foreach=None]",
        )
    ),
    *(
        (lambda header, cell, case=case: (header, replace(cell, case=case)), ".")
        for case in (
            f"global-norm.combinations/s33_n1/{CODE}",
            f"{CODE}/s33_n1/float32",
            "no-such.rule/s33_n1/float32",
            f"global-norm.scaled-above/three-four-five/{CODE}",
            'x"""\n',
        )
    ),
    *(
        (functools.partial(show_answer, shown=shown), "The record shows an array that cannot be read")
        for shown in (
            {"dtype": CODE, "shape": [2], "values": ["0x1p+0", "0x1p+0"]},
            {"dtype": "float32", "shape": [CODE], "values": ["0x1p+0", "0x1p+0"]},
            {"dtype": "float32", "shape": [3], "values": ["0x1p+0", "0x1p+0"]},
            {"dtype": "float32", "shape": [2], "values": [CODE, "0x1p+0"]},
            {"dtype": "float32", "shape": [True, 2], "values": ["0x1p+0", "0x1p+0"]},
            {"dtype": "float32", "shape": [2], "values": [1, 2]},
            {"dtype": "float32", "shape": [2], "values": ["0x1p+99999", "0x1p+0"]},
            {"dtype": "float32"},
            CODE,
        )
    ),
    (functools.partial(declare, norm_types=["0x1p+99999"]), "."),
    (functools.partial(declare, formula={"eps": {"hex": CODE}}), "."),
    (functools.partial(declare, dtypes=[]), "."),
    (functools.partial(declare, features=None), "."),
    (lambda header, cell: (header, replace(cell, rule="no-such.rule")), r"no rule 'no-such\.rule'"),
]


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_record_that_could_put_code_into_a_script_is_refused(number: int, parts: Parts) -> None:
    change, says = REFUSED[number]

    with pytest.raises(NoScript, match=says):
        write_script(*change(*parts))


MODULE = f"""'Call nothing.'

{CODE}

def make(values, dtype):
    return values

def clip(gradients, **options):
    return gradients, None

ENTRY_POINTS = {{"s": clip}}
"""


@pytest.mark.parametrize("spell", ["{relative}", "{absolute}", "./torch", "function", "TORCH", "torch\x00", ""])
def test_module_is_never_read_by_a_path(
    spell: str, parts: Parts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "evil.py").write_text(MODULE, encoding="utf-8")
    path = tmp_path / "evil"
    name = spell.format(relative=os.path.relpath(path, source.FOLDER), absolute=path)
    header, cell = rename(*parts, entry_point="s")

    with pytest.raises(NoScript, match="There is no adapter"):
        write_script(replace(header, adapter=name), cell)
    assert not (tmp_path / MARK).exists()


CALLABLES = """
import functools

def wrong(factor, grads, *, clip_norm):
    return [(grad * factor).astype(grad.dtype) for grad in grads]

of_lambda = lambda grads, *, clip_norm: wrong(0.75, grads, clip_norm=clip_norm)
of_partial = functools.partial(wrong, 0.75)
"""


@pytest.mark.parametrize("name", ["of_lambda", "of_partial"])
def test_callable_without_a_name_of_its_own_has_a_script_that_shows_its_failure(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "callables.py").write_text(CALLABLES, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "callables", raising=False)
    target = f"callables:{name}"
    adapter = resolve(target, "clip_by_global_norm", ["float32"])
    run = run_rules(adapter, CASE, name=target)
    script = write_script(run.header, run.cells[0])

    with pytest.raises(AssertionError):
        exec(compile(script, "script.py", "exec"), {"__name__": "__main__"})
