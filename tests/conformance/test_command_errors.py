"""Check what commands say, and their exit codes, if a file, a folder or an environment is not what they need."""

from __future__ import annotations

import io
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from gradclip_adapters.plain import PlainFunction
from gradclip_conformance.cli import gradclip
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import Selection
from gradclip_conformance.run.runner import RunRequest, run_adapter
from gradclip_reports.writing import write_run

MISSING = """
import no_such_framework

from gradclip_adapters.contract import Adapter
from gradclip_reports.writing import write_run
"""


def run(*arguments: object) -> Result:
    return CliRunner().invoke(gradclip, [str(argument) for argument in arguments])


def clip_right(grads: Any, *, max: float, min: float) -> Any:
    return [np.clip(gradient, min, max).astype(gradient.dtype) for gradient in grads]


@pytest.fixture
def record(tmp_path: Path) -> Path:
    """Return a small record of a right function."""
    adapter = PlainFunction(clip_right, "clip_by_value", dtypes=("float32",))
    stream = io.StringIO()
    selection = Selection(rules=("value.inside-unchanged",))
    write_run(stream, run_adapter(RunRequest("clips:clip", lambda: InProcess(adapter), selection)))
    path = tmp_path / "right.jsonl"
    path.write_text(stream.getvalue(), encoding="utf-8")
    return path


def test_record_that_is_given_twice_is_refused(record: Path, tmp_path: Path) -> None:
    copy = Path(shutil.copy(record, tmp_path / "copy.jsonl"))

    result = run("summary", record, copy)

    assert (result.exit_code, result.stdout) == (2, "")
    assert "copy.jsonl is given twice" in " ".join(result.stderr.split())


def test_verbose_summary_shows_the_table_of_rules_first(record: Path) -> None:
    brief, verbose = run("summary", record), run("summary", record, "--verbose")

    assert brief.exit_code == verbose.exit_code == 0, verbose.output
    assert verbose.stdout.endswith(brief.stdout)
    assert "inside-unchanged" in verbose.stdout.removesuffix(brief.stdout)


def test_difference_with_an_adapter_that_does_not_start(record: Path, tmp_path: Path) -> None:
    adapter = tmp_path / "missing.py"
    adapter.write_text(MISSING, encoding="utf-8")

    result = run("diff", record, adapter)

    assert result.exit_code == 3, result.output
    assert "does not start (missing-framework)" in result.stderr
    assert "no_such_framework" in result.stderr


def test_folder_of_environments_that_is_a_file_stops_the_adapter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("GRADCLIP_VENVS", str(tmp_path / "file"))

    result = run("smoke", "torch", "--venv")

    assert result.exit_code == 3
    assert "torch does not start (no-host)" in result.stderr
    assert "GRADCLIP_VENVS names another folder" in " ".join(result.stderr.split())


ADAPTER = """
import numpy as np

from gradclip_adapters.plain import PlainFunction

def clip(grads, *, max, min):
    return [None if g is None else np.clip(g, min, max).astype(g.dtype) for g in grads]

adapter = PlainFunction(clip, "clip_by_value", dtypes=("float32",), name="clip")
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with an adapter of one dtype and the record of its whole run."""
    folder = tmp_path_factory.mktemp("adapter")
    (folder / "my_adapter.py").write_text(ADAPTER, encoding="utf-8")
    result = run("check", folder / "my_adapter.py", "-o", folder / "whole.jsonl")
    assert result.exit_code == 0, result.output
    return folder


@pytest.mark.thorough(sample=0)
def test_file_in_another_folder_is_not_replaced(folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}

    result = run("expectations", "update", folder / "whole.jsonl", "--write")

    assert result.exit_code == 2
    assert "is not in or below the working directory" in " ".join(result.stderr.split())
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


@pytest.mark.thorough(sample=0)
def test_file_in_the_working_directory_is_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    path = folder / "my_adapter.expectations.toml"

    # A folder that has the name of the file to write is in the way.
    (folder / f"{path.name}.new").mkdir()
    refused = run("expectations", "update", "whole.jsonl", "--write")
    (folder / f"{path.name}.new").rmdir()
    written = run("expectations", "update", "whole.jsonl", "--write")

    assert (refused.exit_code, written.exit_code) == (3, 0), written.output
    assert "Cannot write the known failures" in refused.stderr
    assert path.is_file()


@pytest.mark.thorough(sample=0)
def test_difference_runs_an_adapter_that_is_named(folder: Path) -> None:
    result = run("diff", folder / "my_adapter.py", folder / "whole.jsonl", "--dtype", "float32")

    assert result.exit_code == 0, result.output
    assert "Equal answers in " in result.stdout
