"""Run every program that the documents print, and check that it does what the document states.

A variable such as GRADCLIP_PYTHON_PADDLE names a Python that has the framework. Without it, this Python is used if
it has the framework. A framework named in GRADCLIP_REQUIRE must be installed; its absence is an error.
"""

from __future__ import annotations

import runpy
import subprocess
from pathlib import Path

import numpy as np
import pytest
from frameworks import find_python

FOLDER = Path(__file__).parent / "programs"
#: The framework of a program, by the first word of its name.
FRAMEWORKS = {"paddle": "paddle", "fluid": "paddle-fluid", "torch": "torch"}
PROGRAMS = [
    pytest.param(path.name, marks=pytest.mark.framework(FRAMEWORKS[path.name.split("_")[0]]), id=path.name)
    for path in sorted(FOLDER.glob("*_*.py"))
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_does_what_its_document_states(program: str) -> None:
    python = find_python(FRAMEWORKS[program.partition("_")[0]])

    done = subprocess.run([python, FOLDER / program], capture_output=True, text=True, timeout=300, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_each_document_with_programs_is_covered() -> None:
    headings = " ".join(path.read_text(encoding="utf-8").splitlines()[0] for path in FOLDER.glob("*_*.py"))

    assert {"000", "001", "002", "003", "004"} <= set(headings.replace(",", " ").replace(":", " ").split())


def test_assertions_of_the_programs_can_fail() -> None:
    formulas = runpy.run_path(str(FOLDER / "formulas.py"))
    gradient, zeros = np.array([3.0, 4.0], np.float32), np.zeros(2, np.float32)
    expected = formulas["clipped"](gradient, formulas["norm"](gradient), 1.0)

    formulas["assert_moved"](zeros, np.array([-0.06, -0.08], np.float32), 0.1, expected)
    with pytest.raises(AssertionError):
        # A step with the gradient that was not clipped.
        formulas["assert_moved"](zeros, np.array([-0.3, -0.4], np.float32), 0.1, expected)
    with pytest.raises(AssertionError):
        # An epsilon in the norm.
        formulas["assert_close"]((gradient / 5.00001).astype(np.float32), expected)
    with pytest.raises(AssertionError, match="changed nothing"):
        formulas["assert_moved"](zeros, zeros, 0.1, zeros)
