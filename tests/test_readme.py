"""Check that the README is short, and that its programs and those about the reference print what they show."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs" / "how-to" / "use-the-reference.md").read_text(encoding="utf-8")


def find_programs(text: str) -> list[str]:
    """Return the Python programs of a page."""
    return re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)


def run_program(program: str) -> str:
    """Run a program and return what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(program, "README.md", "exec"), {"__name__": "readme"})
    return printed.getvalue()


def test_quick_start_is_on_the_first_screen() -> None:
    first_screen = "\n".join(README.splitlines()[:24])

    for session in ("check", "tests"):
        assert f"python3 -m pip install nox && python3 -m nox -s {session}\n" in first_screen
    assert len(README.splitlines()) <= 150


@pytest.mark.parametrize("rule", ["overflow-of-squares", "negative-threshold-refused", "zero-gradient-zero-threshold"])
def test_naive_clip_fails_the_rules_that_the_readme_names(rule: str) -> None:
    (program,) = [program for program in find_programs(README) if "check_clipper" in program]
    every_rule = 'op="clip_by_global_norm")'
    # The whole check takes ten times as long as one rule.
    one_rule = program.replace(every_rule, f'op="clip_by_global_norm", rule="global-norm.{rule}")')
    assert one_rule != program

    assert f"global-norm.{rule}/" in run_program(one_rule)


@pytest.mark.parametrize("page", [README, REFERENCE], ids=["README.md", "use-the-reference.md"])
def test_reference_prints_what_the_page_shows(page: str) -> None:
    (program,) = [program for program in find_programs(page) if "print(norm" in program]

    assert run_program(program) == "5.0 [0.6 0. ]\n"


def test_reference_excludes_by_path() -> None:
    namespace: dict[str, Any] = {"__name__": "readme"}
    with contextlib.redirect_stdout(io.StringIO()):
        for program in find_programs(REFERENCE):
            if "gradclip_spec import" in program:
                exec(compile(program, "use-the-reference.md", "exec"), namespace)

    assert namespace["norm"] == 3.0
    ((_, weight), (_, bias)) = namespace["pairs"]
    assert weight.tolist() == pytest.approx([0.6, 0.0], rel=2**-52)
    assert bias.tolist() == pytest.approx([0.8], rel=2**-52)
