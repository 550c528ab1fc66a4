"""Run every program that the documents print, and check that it does what the document states.

A variable such as GRADCLIP_PYTHON_PADDLE names a Python that has the framework. Without it, this Python is used if
it has the framework. A framework named in GRADCLIP_REQUIRE must be installed; its absence is an error.
"""

from __future__ import annotations

import importlib.util
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


class TestFormulas:
    """Check that the assertions of the programs can fail."""

    spec = importlib.util.spec_from_file_location("formulas", FOLDER / "formulas.py")
    assert spec is not None
    assert spec.loader is not None
    formulas = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(formulas)
    gradient = np.array([3.0, 4.0], np.float32)
    zeros = np.zeros(2, np.float32)

    def test_unclipped_step_is_caught(self) -> None:
        expected = self.formulas.clipped(self.gradient, self.formulas.norm(self.gradient), 1.0)

        self.formulas.assert_moved(self.zeros, np.array([-0.06, -0.08], np.float32), 0.1, expected)
        with pytest.raises(AssertionError):
            self.formulas.assert_moved(self.zeros, np.array([-0.3, -0.4], np.float32), 0.1, expected)

    def test_epsilon_in_the_norm_is_caught(self) -> None:
        expected = self.formulas.clipped(self.gradient, 5.0, 1.0)

        with pytest.raises(AssertionError):
            self.formulas.assert_close((self.gradient / 5.00001).astype(np.float32), expected)

    def test_missing_step_is_caught(self) -> None:
        with pytest.raises(AssertionError, match="changed nothing"):
            self.formulas.assert_moved(self.zeros, self.zeros, 0.1, self.zeros)
