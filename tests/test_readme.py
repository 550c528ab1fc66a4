"""What the README shows does what the README says."""

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


def _printed(program: str) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(program, "README.md", "exec"), {"__name__": "readme"})
    return printed.getvalue()


def test_the_two_lines_of_the_quick_start_are_there() -> None:
    for session in ("check", "tests"):
        assert f"python3 -m pip install nox && python3 -m nox -s {session}" in README


def test_the_naive_clipper_is_caught_where_the_readme_says() -> None:
    (program,) = [program for program in PROGRAMS if "check_clipper" in program]

    printed = _printed(program)

    for rule in ("overflow-of-squares", "negative-threshold-refused", "zero-gradient-zero-threshold"):
        assert f"global-norm.{rule}/" in printed


def test_the_reference_prints_what_the_readme_says() -> None:
    (program,) = [program for program in PROGRAMS if "gradclip_spec" in program and "print(norm" in program]

    assert _printed(program) == "5.0 [0.6 0. ]\n"


@pytest.mark.parametrize("link", sorted(set(re.findall(r"\]\(([A-Z][\w./-]*)\)", README))))
def test_links_lead_somewhere(link: str) -> None:
    assert (ROOT / link).exists()


def test_the_reference_excludes_by_path_as_the_readme_says() -> None:
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
