"""Check that no record can put code into a script. Each test runs the script and looks for the file of the attack."""

from __future__ import annotations

import ast
import io
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gradclip_adapters.plain import PlainFunction
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.cases.literals import write_docstring, write_literal
from gradclip_conformance.repro import source
from gradclip_conformance.repro.script import NoScript, write_script
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import Selection
from gradclip_conformance.run.runner import RunRequest, run_adapter
from gradclip_reports.records import Cell, Header

#: The attack makes a file, in one expression without a quotation mark, a space or a line break.
MARK = "executed"
CODE = "open(chr(101)+chr(120)+chr(101)+chr(99)+chr(117)+chr(116)+chr(101)+chr(100),chr(119))"
CASE = "global-norm.scaled-above/three-four-five/float32"

#: This module replaces a framework: everything imported from it can be called and does nothing.
STAND_IN = """
class Anything:
    def __getattr__(self, name): return self
    def __call__(self, *arguments, **keywords): return self
    def __getitem__(self, key): return self
    def __iter__(self): return iter([])
    def __rmul__(self, other): return self
    def __neg__(self): return self

import sys
sys.modules[__name__] = Anything()
"""


@pytest.fixture
def parts() -> tuple[Header, Cell]:
    """Return the header and one failing cell of a plain function."""

    def clip(grads: list[Any], *, clip_norm: float) -> list[Any]:
        return [np.asarray(grad * 0.75, grad.dtype) for grad in grads]

    adapter = PlainFunction(clip, "clip_by_global_norm", name="clip_module:clip")
    run = run_adapter(
        RunRequest("clip_module:clip", lambda: InProcess(adapter), Selection(cases=(CASE,))), io.StringIO()
    )
    return run.header, run.cells[0]


def rename_subject(header: Header, cell: Cell, subject: str, adapter: str | None = None) -> tuple[Header, Cell]:
    """Return the same record with another subject, and with another adapter if one is given."""
    (declared,) = header.subjects
    header = replace(header, subjects=[{**declared, "name": subject}])
    return (replace(header, adapter=adapter) if adapter else header), replace(cell, subject=subject)


def is_executed(header: Header, cell: Cell, folder: Path) -> bool:
    """Write and run the script, if there is one, and tell whether the attack left its file."""
    try:
        text = write_script(header, cell)
    except NoScript:
        return False
    ast.parse(text)
    (folder / "script.py").write_text(text, encoding="utf-8")
    for name in ("torch", "clip_module"):
        (folder / f"{name}.py").write_text(STAND_IN, encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(folder)}
    subprocess.run(
        [sys.executable, "script.py"], cwd=folder, env=environment, capture_output=True, check=False, timeout=600
    )
    return (folder / MARK).exists()


def test_script_with_the_code_leaves_the_mark(parts: tuple[Header, Cell], tmp_path: Path) -> None:
    """Show that the tests below can fail. The injected code makes the file that they look for."""
    header, cell = parts
    text = write_script(header, cell)
    (tmp_path / "script.py").write_text(f"{text}\n", encoding="utf-8")
    subprocess.run([sys.executable, "-c", CODE], cwd=tmp_path, check=True)

    assert (tmp_path / MARK).exists()


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


@pytest.mark.thorough(sample=5)
@pytest.mark.parametrize("text", TEXTS)
def test_text_of_the_framework_cannot_end_the_docstring(text: str, parts: tuple[Header, Cell], tmp_path: Path) -> None:
    header, cell = parts
    header = replace(header, framework={"name": text, "version": text})

    source = write_script(header, cell)

    assert not is_executed(header, cell, tmp_path)
    assert ast.parse(source).body[1:] == [] or isinstance(ast.parse(source).body[0], ast.Expr)
    assert source.isprintable() or all(line.isprintable() for line in source.split("\n"))


@pytest.mark.parametrize("text", TEXTS)
def test_escaped_text_reads_back(text: str) -> None:
    assert ast.literal_eval(write_literal(text)) == text
    assert isinstance(ast.literal_eval(write_docstring([text, "", text])), str)


@pytest.mark.thorough(sample=5)
@pytest.mark.parametrize(
    "name",
    [
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
    ],
)
def test_name_of_a_function_is_never_run_as_code(name: str, parts: tuple[Header, Cell], tmp_path: Path) -> None:
    header, cell = rename_subject(*parts, subject=name, adapter=name)

    with pytest.raises(NoScript, match=r"no script can import it|must declare the subject"):
        write_script(header, cell)
    # The subject alone is only text, because the script imports the function by the name that was checked.
    header, cell = rename_subject(*parts, subject=name)
    assert not is_executed(header, cell, tmp_path)


@pytest.mark.parametrize(
    "subject",
    [
        f"torch.nn.utils.clip_grad_norm_[foreach=None) and 0 or ({CODE}]",
        f"torch.nn.utils.clip_grad_norm_[foreach={CODE}]",
        f"{CODE};torch.nn.utils.clip_grad_norm_[foreach=None]",
        "torch.nn.utils.clip_grad_norm_[foreach=None]\n",
        f"torch.nn.utils.clip_grad_norm_[{CODE}][foreach=None]",
    ],
)
def test_subject_is_never_run_as_code(subject: str, parts: tuple[Header, Cell], tmp_path: Path) -> None:
    header, cell = rename_subject(*parts, subject=subject, adapter="torch")

    assert not is_executed(header, cell, tmp_path)
    with pytest.raises(NoScript, match=r"No function of gradclip_adapters\.scripts calls|must declare the subject"):
        write_script(header, cell)


def test_known_subject_has_a_script(parts: tuple[Header, Cell], tmp_path: Path) -> None:
    header, cell = rename_subject(*parts, subject="torch.nn.utils.clip_grad_norm_[foreach=None]", adapter="torch")

    assert re.search(
        r"\(torch\.nn\.utils\.clip_grad_norm_, gradients, clip_norm=[0-9.]+, foreach=None\)", write_script(header, cell)
    )


MODULE = f"""'Call nothing.'

{CODE}

def make(values, dtype):
    return values

def clip(gradients, **options):
    return gradients, None

ENTRY_POINTS = {{"s": clip}}
"""


@pytest.mark.parametrize("spell", ["{relative}", "{absolute}", "./torch", "function", "TORCH", "torch\x00", ""])
def test_module_is_never_read_by_a_path(spell: str, parts: tuple[Header, Cell], tmp_path: Path) -> None:
    (tmp_path / "evil.py").write_text(MODULE, encoding="utf-8")
    path = tmp_path / "evil"
    name = spell.format(relative=os.path.relpath(path, source.FOLDER), absolute=path)
    header, cell = rename_subject(*parts, subject="s")
    header = replace(header, adapter=name)

    assert not is_executed(header, cell, tmp_path)
    with pytest.raises(NoScript, match="There is no adapter"):
        write_script(header, cell)


@pytest.mark.parametrize(
    "case",
    [
        f"global-norm.combinations/s33_n1/{CODE}",
        f"{CODE}/s33_n1/float32",
        "no-such.rule/s33_n1/float32",
        f"global-norm.scaled-above/three-four-five/{CODE}",
        'x"""\n',
    ],
)
def test_name_of_a_case_is_never_run_as_code(case: str, parts: tuple[Header, Cell], tmp_path: Path) -> None:
    header, cell = parts

    with pytest.raises(NoScript):
        write_script(header, replace(cell, case=case))


@pytest.mark.parametrize(
    "shown",
    [
        {"dtype": CODE, "shape": [2], "values": ["0x1p+0", "0x1p+0"]},
        {"dtype": "float32", "shape": [CODE], "values": ["0x1p+0", "0x1p+0"]},
        {"dtype": "float32", "shape": [3], "values": ["0x1p+0", "0x1p+0"]},
        {"dtype": "float32", "shape": [2], "values": [CODE, "0x1p+0"]},
        {"dtype": "float32", "shape": [2], "values": ["0x1p+99999", "0x1p+0"]},
        {"dtype": "float32"},
        CODE,
    ],
)
def test_answer_is_never_run_as_code(shown: Any, parts: tuple[Header, Cell], tmp_path: Path) -> None:
    header, cell = parts
    case = next(
        each.id for each in list_all_cases() if each.rule == "global-norm.tensor-order" and "float32" in each.id
    )
    answers = {"gradients": [shown, shown]}
    cell = replace(cell, case=case, rule="global-norm.tensor-order", input=None, expected=answers, observed=answers)

    assert not is_executed(header, cell, tmp_path)
    with pytest.raises(NoScript):
        write_script(header, cell)


@pytest.mark.parametrize("key", ["norm_types", "formula", "dtypes", "features"])
def test_subject_that_cannot_be_read_is_refused(key: str, parts: tuple[Header, Cell]) -> None:
    header, cell = parts
    (declared,) = header.subjects
    broken = {"norm_types": ["0x1p+99999"], "formula": {"eps": {"hex": CODE}}, "dtypes": [], "features": None}
    header = replace(header, subjects=[{**declared, key: broken[key]}])

    with pytest.raises(NoScript):
        write_script(header, cell)


def test_unknown_rule_is_reported(parts: tuple[Header, Cell]) -> None:
    header, cell = parts

    with pytest.raises(NoScript, match=r"no rule 'no-such\.rule'"):
        write_script(header, replace(cell, rule="no-such.rule"))


FUNCTIONS = """
import functools

def wrong(factor, grads, *, clip_norm):
    return [(grad * factor).astype(grad.dtype) for grad in grads]

class ClipFunction:
    def __call__(self, grads, *, clip_norm):
        return wrong(0.75, grads, clip_norm=clip_norm)

    def clip(self, grads, *, clip_norm):
        return wrong(0.75, grads, clip_norm=clip_norm)

def make(factor):
    def clip(grads, *, clip_norm):
        return wrong(factor, grads, clip_norm=clip_norm)
    return clip

of_lambda = lambda grads, *, clip_norm: wrong(0.75, grads, clip_norm=clip_norm)
of_closure = make(0.75)
of_partial = functools.partial(wrong, 0.75)
of_object = ClipFunction()
of_method = ClipFunction().clip
"""


@pytest.mark.parametrize("name", ["of_lambda", "of_closure", "of_partial", "of_object", "of_method"])
def test_callable_of_any_kind_has_a_script_that_shows_its_failure(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from gradclip_adapters.registry import resolve

    (tmp_path / "callables.py").write_text(FUNCTIONS, encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "callables", raising=False)
    target = f"callables:{name}"
    adapter = resolve(target, "clip_by_global_norm", ["float32"])
    request = RunRequest(target, lambda: InProcess(adapter), Selection(cases=(CASE,)))
    run = run_adapter(request, io.StringIO())
    (tmp_path / "script.py").write_text(write_script(run.header, run.cells[0]), encoding="utf-8")

    done = subprocess.run([sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 1
    assert "AssertionError" in done.stderr
