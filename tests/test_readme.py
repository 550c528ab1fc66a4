"""Check that the programs, commands and links of the README and the manual work."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from gradclip_conformance.cli import gradclip

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs" / "how-to" / "use-the-reference.md").read_text(encoding="utf-8")
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
#: A link to a file of the project, with an optional heading in it.
LINK = re.compile(r"\]\((?!https?://)([\w./-]*)(#[\w-]+)?\)")


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


def find_links() -> Iterator[tuple[str, str, str]]:
    """Yield each page with each of its links to a file: the file and the heading, empty for the whole file."""
    for page in PAGES:
        for file, heading in sorted(set(LINK.findall(page.read_text(encoding="utf-8")))):
            yield str(page.relative_to(ROOT)), file, heading.removeprefix("#")


@pytest.mark.parametrize(("page", "file", "heading"), sorted(find_links()), ids=str)
def test_link_leads_to_a_file_and_a_heading(page: str, file: str, heading: str) -> None:
    source = ROOT / page
    target = source.parent / file if file else source

    assert target.exists()
    if heading:
        headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), flags=re.MULTILINE)
        assert heading in {re.sub(r"[^\w -]", "", text).lower().replace(" ", "-") for text in headings}


def find_commands() -> Iterator[str]:
    """Yield each command line of the pages that starts with `gradclip`."""
    for page in PAGES:
        for block in re.findall(r"```sh\n(.*?)```", page.read_text(encoding="utf-8"), flags=re.DOTALL):
            for line in block.splitlines():
                if line.startswith("gradclip "):
                    yield line.split(" >>")[0]


@pytest.mark.parametrize("line", sorted(set(find_commands())))
def test_command_accepts_the_arguments_that_a_page_shows(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The files that commands read, so that click accepts their names.
    monkeypatch.chdir(tmp_path)
    for name in ("my_adapter.py", "torch.jsonl", "record.jsonl"):
        Path(name).touch()
    words = shlex.split(line, comments=True)[1:]
    group = gradclip.make_context("gradclip", [*words])
    _, command, rest = gradclip.resolve_command(group, words)

    assert command is not None
    command.make_context(command.name, rest, parent=group)


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
