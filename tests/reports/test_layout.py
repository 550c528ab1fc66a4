"""Check that texts fit a terminal, and that they are coloured only for a terminal that shows colours."""

from __future__ import annotations

import io

import pytest
from rich.cells import cell_len
from sample_runs import Terminal

from gradclip_reports.layout import paint, shorten_line, uses_color, wrap_text

CHINESE = "如果L2范数小于或等于 clip_norm，则不会进行任何操作。"


@pytest.mark.parametrize(
    ("variables", "expected"),
    [({}, True), ({"NO_COLOR": "1"}, False), ({"NO_COLOR": ""}, True), ({"TERM": "dumb"}, False)],
)
def test_terminal_is_coloured_unless_the_user_or_the_terminal_objects(
    variables: dict[str, str], expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm-256color")
    for name, value in variables.items():
        monkeypatch.setenv(name, value)

    assert uses_color(Terminal()) is expected
    assert not uses_color(io.StringIO())


@pytest.mark.parametrize("text", [CHINESE * 3, "short words " * 20, "x" * 200])
@pytest.mark.parametrize("width", [20, 41])
def test_wrapped_lines_fit_and_lose_nothing(text: str, width: int) -> None:
    lines = wrap_text(text, width, "- ", "  ")

    assert max(map(cell_len, lines)) <= width
    assert "".join(lines).replace(" ", "").removeprefix("-") == text.replace(" ", "")


def test_long_word_is_kept_where_it_must_be_copied() -> None:
    assert wrap_text("see " + "x" * 30, 20, break_words=False) == ["see", "x" * 30]


def test_chinese_is_broken_even_where_words_are_kept() -> None:
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
def test_shortened_line_ends_at_a_word(text: str, shown: str) -> None:
    assert shorten_line(text, 12) == shown
    assert cell_len(shorten_line(text, 12)) <= 12


def test_empty_style_adds_nothing() -> None:
    assert paint("text", "") == "text"
    assert paint("text", "bold") == "\x1b[1mtext\x1b[0m"
