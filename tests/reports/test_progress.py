"""Check the progress of long tasks: a bar on a terminal, and few lines elsewhere."""

from __future__ import annotations

import contextlib
import io
import re

import pytest
from sample_runs import Terminal, make_cell

from gradclip_reports.progress import progress_bar, show_task


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """Return a terminal of 80 columns. Each test redirects standard error to it, because pytest replaces it."""
    for name, value in {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "25"}.items():
        monkeypatch.setenv(name, value)
    return Terminal()


def read_lines(stream: io.StringIO) -> list[str]:
    """Return the lines that a terminal showed, one after another, without escape codes."""
    return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue()).split("\r")]


def test_bar_says_what_the_task_does_and_fits_the_terminal(terminal: Terminal) -> None:
    with contextlib.redirect_stderr(terminal), show_task("measuring", 4) as task:
        for number in range(3):
            task.note(f"[bold]size {10**number}[/bold]\x1b[2J " + "of a function " * 9)
            task.advance()

    lines = read_lines(terminal)
    assert "[bold]size 100[/bold]\\x1b[2J of" in lines[-2]
    assert "3/4" in lines[-2]
    assert max(len(part) for line in lines for part in line.splitlines()) <= 80


def test_bar_of_a_run_counts_unexpected_cells(terminal: Terminal) -> None:
    with contextlib.redirect_stderr(terminal), progress_bar() as progress:
        progress.note_start("./a_long_folder/of_adapters/my_adapter.py", "My framework of many words 2.1.0+cpu", 2)
        progress.note_finish(make_cell(status="fail"))
        progress.note_finish(make_cell())

    lines = read_lines(terminal)
    assert any("2/2 1 not as expected" in line for line in lines)
    assert max(len(part) for line in lines for part in line.splitlines()) <= 80


def test_dumb_terminal_gets_lines(terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "dumb")
    with contextlib.redirect_stderr(terminal), show_task("measuring", 4) as task:
        task.note("something")
        task.advance()
    with contextlib.redirect_stderr(terminal), progress_bar() as progress:
        progress.note_start("torch", "PyTorch 2.13.0", 1)
        progress.note_finish(make_cell())

    assert terminal.getvalue() == "measuring\ntorch: PyTorch 2.13.0, 1 cells\ntorch: 1 of 1, 0 not as expected\n"


def test_pipe_gets_the_title_once(capsys: pytest.CaptureFixture[str]) -> None:
    with show_task("making the environment of torch") as task:
        task.note("pip downloads torch")

    assert capsys.readouterr() == ("", "making the environment of torch\n")
