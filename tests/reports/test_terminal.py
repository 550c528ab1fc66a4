"""Check what a terminal shows: the report in 80 columns and without colour, lines that fit, and progress."""

from __future__ import annotations

import contextlib
import io
import re
from dataclasses import replace

import pytest
from rich.cells import cell_len
from sample_runs import Terminal, make_cell, make_header, make_run

from gradclip_reports.layout import shorten_line, uses_color, wrap_text
from gradclip_reports.progress import progress_bar, show_task
from gradclip_reports.records import Run
from gradclip_reports.terminal import draw_terminal

SMALL = """\
  entry point cells ✗ ∅ – ✓
───────────────────────────
1 clip            5 1 1 1 2

  all             5 1 1 1 2

clip_by_norm        clip
────────────────────────────
scaled-above   must ✗1 –1 ✓2
identity-below      ∅1

✗ fail         breaks a rule, and nothing documents it
∅ not-run      planned, and did not run
– unsupported  cannot be tested
✓ pass         agrees with the rule
(blank)        no case of this rule in this column
A number counts the cells of the status before it. The worst status comes first,
or is the only one shown.

torch 2.13.0
  Python 3.11.9, Linux x86_64, 2026-11-21
  rules kept 0 of 1 tested; 1 broken by 0 findings.
  did not run: 1 cell of clip
  ✗ fail: norm.scaled-above (1 cell; breaks a rule, and nothing documents it)

✗ fail: norm.scaled-above
  case       norm.scaled-above/one-tensor/float16 of clip
  detail     The result is half of what it must be.
  input      {clip_norm: 2.0, gradients: [[3.0, 4.0]]}
  expected   [[1.2, 1.6]]
  observed   [[0.6, nan]]

Not as expected.
"""

ESCAPES = re.compile("\x1b\\[[0-9;]*m")
CHINESE = "如果L2范数小于或等于 clip_norm，则不会进行任何操作。"


def strip_colours(text: str) -> str:
    return "".join(line.rstrip() + "\n" for line in ESCAPES.sub("", text).splitlines())


class TestReport:
    def test_host_without_python_is_shown_without_one(self, small_run: Run) -> None:
        header = replace(small_run.header, environment={"python": "", "platform": "Linux"})

        assert header.conditions == f"Linux, {header.started[:10]}"

    def test_small_run(self, small_run: Run) -> None:
        assert draw_terminal([small_run]) == SMALL

    def test_run_without_judged_cells_says_so(self, small_run: Run) -> None:
        said = "No cell of torch 2.13.0 was judged"
        mute = replace(small_run, cells=tuple(replace(cell, status="unsupported") for cell in small_run.cells))

        assert said in draw_terminal([mute])
        assert said in draw_terminal([mute, small_run])
        assert said not in draw_terminal([small_run])
        assert said not in draw_terminal([replace(small_run, cells=())])

    @pytest.mark.parametrize("width", [80, 100, 160])
    def test_lines_fit_the_terminal(self, several_runs: list[Run], width: int) -> None:
        for runs in (several_runs, several_runs[:1]):
            assert max(map(cell_len, draw_terminal(runs, width=width).splitlines())) <= width

    def test_width_of_a_dumb_terminal_is_used(self, torch_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
        expected = draw_terminal([torch_run], width=160)
        monkeypatch.setenv("TERM", "dumb")
        # With these variables, Rich treats every stream as a terminal.
        monkeypatch.setenv("FORCE_COLOR", "1")
        monkeypatch.delenv("LINES", raising=False)

        assert strip_colours(draw_terminal([torch_run], width=160, color=True)) == expected

    def test_many_entry_points_are_split_over_tables(self) -> None:
        entry_points = [(f"clip {number}", "clip_by_norm") for number in range(1, 41)]
        cells = [make_cell(subject=name) for name, _ in entry_points]
        text = draw_terminal([make_run(make_header(entry_points=entry_points), cells)])

        assert max(map(cell_len, text.splitlines())) <= 80
        heads = [line for line in text.splitlines() if line.startswith("clip_by_norm")]
        assert len(heads) > 1
        assert re.findall(r"\d+", "".join(heads)) == [str(number) for number in range(1, 41)]

    def test_colour_adds_escape_codes_only(self, several_runs: list[Run]) -> None:
        coloured = draw_terminal(several_runs, color=True)

        assert "\x1b[1;31m✗" in coloured
        assert strip_colours(coloured) == draw_terminal(several_runs)

    def test_names_with_brackets_are_not_styles(self, torch_run: Run) -> None:
        assert "1 torch.nn.utils.clip_grad_norm_ [foreach=None]" in draw_terminal([torch_run])


class TestLayout:
    @pytest.mark.parametrize(
        ("variables", "expected"),
        [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
    )
    def test_terminal_is_coloured_unless_the_user_or_the_terminal_objects(
        self, variables: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.delenv("NO_COLOR", raising=False)
        monkeypatch.setenv("TERM", "xterm-256color")
        for name, value in variables.items():
            monkeypatch.setenv(name, value)

        assert uses_color(Terminal()) is expected
        assert not uses_color(io.StringIO())

    @pytest.mark.parametrize("text", [CHINESE * 3, "short words " * 20, "x" * 200])
    @pytest.mark.parametrize("width", [20, 41])
    def test_wrapped_lines_fit_and_lose_nothing(self, text: str, width: int) -> None:
        lines = wrap_text(text, width, "- ", "  ")

        assert max(map(cell_len, lines)) <= width
        assert "".join(lines).replace(" ", "").removeprefix("-") == text.replace(" ", "")

    def test_long_word_is_kept_where_it_must_be_copied_unless_it_is_chinese(self) -> None:
        assert wrap_text("see " + "x" * 30, 20, break_words=False) == ["see", "x" * 30]
        assert max(map(cell_len, wrap_text(CHINESE * 3, 20, break_words=False))) <= 20

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("fits", "fits"),
            ("one two three four", "one two ..."),
            ("one two elements", "one two ..."),
            # The space is one column too far to the right.
            ("123456789 rest", "12345678 ..."),
            ("some elements become NaN", "some ele ..."),
            ("x" * 40, "x" * 8 + " ..."),
            ("范数" * 9, "范数范数 ..."),
        ],
    )
    def test_shortened_line_ends_at_a_word(self, text: str, shown: str) -> None:
        assert shorten_line(text, 12) == shown
        assert cell_len(shorten_line(text, 12)) <= 12


class TestProgress:
    """A long task shows a bar on a terminal, and few lines elsewhere."""

    @pytest.fixture
    def terminal(self, monkeypatch: pytest.MonkeyPatch) -> Terminal:
        """Return a terminal of 80 columns. Each test redirects standard error to it, because pytest replaces it."""
        for name, value in {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "25"}.items():
            monkeypatch.setenv(name, value)
        return Terminal()

    def read_lines(self, stream: io.StringIO) -> list[str]:
        """Return the lines that a terminal showed, one after another, without escape codes."""
        return [line.rstrip() for line in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue()).split("\r")]

    def test_bar_says_what_the_task_does_and_fits_the_terminal(self, terminal: Terminal) -> None:
        with contextlib.redirect_stderr(terminal), show_task("measuring", 4) as task:
            for number in range(3):
                task.note(f"[bold]size {10**number}[/bold]\x1b[2J " + "of a function " * 9)
                task.advance()

        lines = self.read_lines(terminal)
        assert "[bold]size 100[/bold]\\x1b[2J of" in lines[-2]
        assert "3/4" in lines[-2]
        assert max(len(part) for line in lines for part in line.splitlines()) <= 80

    def test_bar_of_a_run_counts_unexpected_cells(self, terminal: Terminal) -> None:
        with contextlib.redirect_stderr(terminal), progress_bar() as progress:
            progress.note_start("./a_long_folder/of_adapters/my_adapter.py", "My framework of many words 2.1.0+cpu", 2)
            progress.note_finish(make_cell(status="fail"))
            progress.note_finish(make_cell())

        lines = self.read_lines(terminal)
        assert any("2/2 1 not as expected" in line for line in lines)
        assert max(len(part) for line in lines for part in line.splitlines()) <= 80

    def test_dumb_terminal_gets_lines(self, terminal: Terminal, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("TERM", "dumb")
        with contextlib.redirect_stderr(terminal), show_task("measuring", 4) as task:
            task.note("something")
            task.advance()
        with contextlib.redirect_stderr(terminal), progress_bar() as progress:
            progress.note_start("torch", "PyTorch 2.13.0", 1)
            progress.note_finish(make_cell())

        assert terminal.getvalue() == "measuring\ntorch: PyTorch 2.13.0, 1 cells\ntorch: 1 of 1, 0 not as expected\n"

    def test_pipe_gets_the_title_once(self, capsys: pytest.CaptureFixture[str]) -> None:
        with show_task("making the environment of torch") as task:
            task.note("pip downloads torch")

        assert capsys.readouterr() == ("", "making the environment of torch\n")
