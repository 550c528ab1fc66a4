"""Check that the programs, commands and links of the README work."""

from __future__ import annotations

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
PROGRAMS = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


def _run(program: str) -> str:
    """Run a program and return what it prints."""
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(program, "README.md", "exec"), {"__name__": "readme"})
    return printed.getvalue()


def test_quick_start_has_its_two_commands() -> None:
    for session in ("check", "tests"):
        assert f"python3 -m pip install nox && python3 -m nox -s {session}" in README


def test_naive_clip_fails_the_rules_that_the_readme_names() -> None:
    (program,) = [program for program in PROGRAMS if "check_clipper" in program]

    printed = _run(program)

    for rule in ("overflow-of-squares", "negative-threshold-refused", "zero-gradient-zero-threshold"):
        assert f"global-norm.{rule}/" in printed


def test_reference_prints_what_the_readme_shows() -> None:
    (program,) = [program for program in PROGRAMS if "gradclip_spec" in program and "print(norm" in program]

    assert _run(program) == "5.0 [0.6 0. ]\n"


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([A-Z][\w./-]*)\)", README))))
def test_link_leads_to_a_file(link: str) -> None:
    assert (ROOT / link).exists()


def test_reference_excludes_by_path() -> None:
    namespace: dict[str, Any] = {"__name__": "readme"}
    with contextlib.redirect_stdout(io.StringIO()):
        for program in PROGRAMS:
            if "gradclip_spec import" in program and "import torch" not in program and "import jax" not in program:
                exec(compile(program, "README.md", "exec"), namespace)
            if "pairs" in namespace:
                break

    assert namespace["norm"] == 3.0
    ((_, weight), (_, bias)) = namespace["pairs"]
    assert weight.tolist() == pytest.approx([0.6, 0.0], rel=2**-52)
    assert bias.tolist() == pytest.approx([0.8], rel=2**-52)
