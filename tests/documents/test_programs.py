"""Run every program that the documents print, and check that it does what the document states.

A variable such as GRADCLIP_PYTHON_PADDLE names a Python that has the framework. Without it, the tests use this Python
if it has the framework. If GRADCLIP_REQUIRE names the framework, its absence is an error.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

FOLDER = Path(__file__).parent / "programs"
PROGRAMS = sorted(path.name for path in FOLDER.glob("*_*.py"))


@dataclass(frozen=True)
class Framework:
    """A framework that some programs need."""

    name: str
    variable: str
    distribution: str
    versions: tuple[str, ...]

    def is_here(self) -> bool:
        """Return whether this Python has a version that runs the programs."""
        try:
            return importlib.metadata.version(self.distribution).startswith(self.versions)
        except importlib.metadata.PackageNotFoundError:
            return False


#: The frameworks by the first word of a program's name.
FRAMEWORKS = {
    "paddle": Framework("paddle", "GRADCLIP_PYTHON_PADDLE", "paddlepaddle", ("2.", "3.")),
    "fluid": Framework("paddle-fluid", "GRADCLIP_PYTHON_PADDLE_FLUID", "paddlepaddle", ("1.8.",)),
    "torch": Framework("torch", "GRADCLIP_PYTHON_TORCH", "torch", ("2.",)),
}


def find_python(framework: Framework) -> str:
    """Return a Python that has the framework.

    Without one, skip the test, or fail it if the framework is required.
    """
    named = os.environ.get(framework.variable)
    if named:
        return named
    if framework.is_here():
        return sys.executable
    message = (
        f"{framework.distribution} {' or '.join(framework.versions)} is not installed in this Python; "
        f"{framework.variable} can name one that has it"
    )
    if framework.name in os.environ.get("GRADCLIP_REQUIRE", "").split(","):
        pytest.fail(message)
    pytest.skip(message)


@pytest.mark.parametrize("program", PROGRAMS)
def test_program_does_what_its_document_states(program: str) -> None:
    python = find_python(FRAMEWORKS[program.partition("_")[0]])

    done = subprocess.run([python, FOLDER / program], capture_output=True, text=True, timeout=300, check=False)

    assert done.returncode == 0, done.stdout + done.stderr


def test_each_document_has_a_program() -> None:
    headings = " ".join((FOLDER / program).read_text(encoding="utf-8").splitlines()[0] for program in PROGRAMS)

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
