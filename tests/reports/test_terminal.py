"""Check the report for a terminal: 80 columns, readable without colour, and complete."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from rich.cells import cell_len
from sample_runs import make_cell, make_header, make_run

from gradclip_reports.records import Run
from gradclip_reports.statuses import STATUSES
from gradclip_reports.terminal import draw_terminal

SMALL = """\
  subject cells ✗ ∅ – ✓
───────────────────────
1 clip        5 1 1 1 2

  all         5 1 1 1 2

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


def test_host_without_python_is_shown_without_one(small_run: Run) -> None:
    header = replace(small_run.header, environment={"python": "", "platform": "Linux"})

    assert header.conditions == f"Linux, {header.started[:10]}"


def test_small_run(small_run: Run) -> None:
    assert draw_terminal([small_run]) == SMALL


def test_run_without_judged_cells_says_so(small_run: Run) -> None:
    said = "No cell of torch 2.13.0 was judged"
    mute = replace(small_run, cells=tuple(replace(cell, status="unsupported") for cell in small_run.cells))

    assert said in draw_terminal([mute])
    assert said in draw_terminal([mute, small_run])
    assert said not in draw_terminal([small_run])
    assert said not in draw_terminal([replace(small_run, cells=())])


@pytest.mark.parametrize("width", [80, 100, 160])
def test_lines_fit_the_terminal(several_runs: list[Run], width: int) -> None:
    for runs in (several_runs, several_runs[:1]):
        assert max(map(cell_len, draw_terminal(runs, width=width).splitlines())) <= width


def test_width_of_a_dumb_terminal_is_used(torch_run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = draw_terminal([torch_run], width=160)
    monkeypatch.setenv("TERM", "dumb")
    # With these variables, Rich treats every stream as a terminal.
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("LINES", raising=False)

    text = ESCAPES.sub("", draw_terminal([torch_run], width=160, color=True))
    assert "".join(line.rstrip() + "\n" for line in text.splitlines()) == expected


def test_many_subjects_are_split_over_tables() -> None:
    subjects = [(f"subject {number}", "clip_by_norm") for number in range(1, 41)]
    cells = [make_cell(subject=name) for name, _ in subjects]
    text = draw_terminal([make_run(make_header(subjects=subjects), cells)])

    assert max(map(cell_len, text.splitlines())) <= 80
    heads = [line for line in text.splitlines() if line.startswith("clip_by_norm")]
    assert len(heads) > 1
    assert re.findall(r"\d+", "".join(heads)) == [str(number) for number in range(1, 41)]


def test_colour_adds_escape_codes_only(several_runs: list[Run]) -> None:
    coloured = draw_terminal(several_runs, color=True)

    assert "\x1b[1;31m✗" in coloured
    stripped = "".join(line.rstrip() + "\n" for line in ESCAPES.sub("", coloured).splitlines())
    assert stripped == draw_terminal(several_runs)


def test_names_with_brackets_are_not_styles(torch_run: Run) -> None:
    text = draw_terminal([torch_run])

    assert "1 torch.nn.utils.clip_grad_norm_ [foreach=None]" in text


def test_every_status_of_the_run_is_in_the_legend(torch_run: Run) -> None:
    text = draw_terminal([torch_run])

    for name in torch_run.footer.counts:
        assert f"{STATUSES[name].glyph} {name} " in text
    assert f"{STATUSES['error'].glyph} error " not in text
