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
torch 2.13.0  Python 3.11.9, Linux x86_64, 2026-11-21

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

✗ fail  norm.scaled-above  (must)
  clip
  The result is half of what it must be.
    case      norm.scaled-above/one-tensor/float16
    input     {clip_norm: 2.0, gradients: [[3.0, 4.0]]}
    expected  [[1.2, 1.6]]
    observed  [[0.6, nan]]
    off by    4.1943e+06 ulp

∅ did not run: 1 cell of clip
  norm.identity-below

2 of 5 cells passed, 1 fail, 1 not-run, 1 unsupported. Not as expected.
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


def test_every_failing_rule_and_subject_is_named(torch_run: Run) -> None:
    text = draw_terminal([torch_run])
    failing = {cell.rule for cell in torch_run.cells if STATUSES[cell.status].spoils}

    assert len(failing) > 12
    after_legend = text.partition("(blank)")[2]
    assert failing <= set(re.findall(r"[a-z-]+\.[a-z-]+", after_legend))


def test_many_failures_of_one_rule_are_shown_once_with_a_count() -> None:
    cells = [make_cell(case=f"norm.scaled-above/case-{number}/float32", status="fail") for number in range(30)]
    text = draw_terminal([make_run(make_header(), cells)])

    assert text.count("case-0") == 1
    assert "case-1/" not in text
    assert "clip (30 cells)" in text
    assert "30 fail; the first is shown" in text
    assert "gradclip summary --format json FILE" in text


@pytest.mark.parametrize(
    ("status", "told"), [("known", True), ("documented", True), ("quality", False), ("unsupported", False)]
)
def test_command_that_lists_the_reasons_is_shown_if_there_are_any(status: str, told: bool) -> None:
    name = f"a {'very ' * 20}long name.jsonl"
    text = draw_terminal([make_run(make_header(), [make_cell(status=status)])], record=name)

    assert (f"\n  gradclip summary --format json {name}\n" in text) == told


def test_run_as_expected_says_so() -> None:
    cells = [make_cell(), make_cell(case="norm.scaled-above/b/float32", status="unsupported")]
    text = draw_terminal([make_run(make_header(), cells)])

    assert text.endswith("1 of 2 cells passed, 1 unsupported. As expected.\n")


def test_documentation_of_a_failure_is_quoted() -> None:
    cell = make_cell(status="fail", quote="nothing will be done", url="https://example.org/clip")
    text = draw_terminal([make_run(make_header(), [cell])])

    assert re.search(r'documented +"nothing will be done"\n +see +https://example.org/clip\n', text)


def test_long_values_are_cut_and_say_so() -> None:
    cell = make_cell(status="fail", observed="x" * 1000)
    text = draw_terminal([make_run(make_header(), [cell])])

    assert text.count("x") < 400
    assert "(680 characters more)" in " ".join(text.split())
