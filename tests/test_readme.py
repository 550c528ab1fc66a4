"""Check that the code blocks of the README run, and that programs print what the pages show."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from frameworks import find_python

from gradclip_reports.statuses import CELL_STATUSES

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


#: The command that `nox -s check` runs after an installation.
CHECK = "gradclip check numpy --venv"


@pytest.mark.parametrize("page", ["README.md", "SPEC.md"])
def test_page_names_each_status_of_a_cell(page: str) -> None:
    (table,) = re.findall(r"\| status \|.*\n((?:\|.*\n)+)", (ROOT / page).read_text(encoding="utf-8"))
    named = [name for row in table.splitlines()[1:] for name in re.findall(r"`(\w+)`", row.split("|")[1])]

    assert sorted(named) == sorted(CELL_STATUSES)


#: Each command of the README, with its exit code and something that it prints. Commands that check are limited to one
#: rule.
COMMANDS = {
    "gradclip diff reports/published/torch.jsonl.gz reports/published/tensorflow.jsonl.gz": (
        0,
        "zero.*TensorFlow.*NaN",
    ),
    "gradclip check": (0, "gradclip_spec on NumPy"),
    CHECK: (0, "gradclip_spec on NumPy"),
    "gradclip check ./my_adapter.py": (1, r"tinyframe 1\.0.*a negative threshold is not refused"),
    "gradclip show global-norm.at-threshold/three-four-five/float32": (0, r"clip_norm: 5\.0"),
    "gradclip repro torch.jsonl global-norm.negative-threshold-refused/minus-one/float32": (0, "import torch"),
    'gradclip check ./my_adapter.py -o record.jsonl --format markdown >> "$GITHUB_STEP_SUMMARY"': (
        1,
        r"\*\*Not as exp",
    ),
}
#: The command that needs a framework.
WITH_TORCH = "gradclip check torch --venv -o torch.jsonl"


def find_commands() -> list[str]:
    """Return the command lines of the README, without comments."""
    lines = "".join(re.findall(r"```sh\n(.*?)```", README, flags=re.DOTALL)).splitlines()
    return [re.sub(r" +# .*", "", line) for line in lines]


def test_every_command_is_run() -> None:
    run_by_continuous_integration = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    install = "python3 -m pip install nox && python3 -m nox -s"

    assert f"{install} tests" in run_by_continuous_integration
    assert set(find_commands()) == {
        f"{install} tests",
        f"{install} check",  # its session runs CHECK
        "python3 -m pip install '.[check]'",
        *(command for command in COMMANDS if command != CHECK),
        WITH_TORCH,
    }


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return a folder with the files that the commands of the README name."""
    tutorial = (ROOT / "docs" / "tutorial" / "adapter.md").read_text(encoding="utf-8")
    for name, text in re.findall(r"Save this as `(\w+\.py)`[^`]*```python\n(.*?)```", tutorial, flags=re.DOTALL):
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "reports").symlink_to(ROOT / "reports")
    (tmp_path / "torch.jsonl").write_bytes(gzip.decompress((ROOT / "reports/published/torch.jsonl.gz").read_bytes()))
    return tmp_path


def run_command(command: str, folder: Path) -> tuple[int, str]:
    """Run a command in a folder with one rule. Return its exit code and everything that it prints or writes."""
    narrowed = command.replace("gradclip check", "gradclip check --rule global-norm.negative-threshold-refused")
    summary = folder / "summary.md"
    environment = {
        **os.environ,
        "PATH": os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])),
        "GITHUB_STEP_SUMMARY": str(summary),
    }
    done = subprocess.run(
        ["bash", "-c", narrowed], cwd=folder, env=environment, capture_output=True, encoding="utf-8", check=False
    )
    written = summary.read_text(encoding="utf-8") if summary.exists() else ""
    return done.returncode, " ".join((done.stdout + written + done.stderr).split())


@pytest.mark.thorough(sample=0)
@pytest.mark.parametrize("command", COMMANDS)
def test_command_runs(command: str, folder: Path) -> None:
    expected, shown = COMMANDS[command]

    code, printed = run_command(command, folder)

    assert code == expected, printed
    assert re.search(shown, printed), printed


@pytest.mark.framework("torch")
def test_command_with_a_framework_runs(folder: Path) -> None:
    """Run the command in an environment that exists, so that the test needs no network."""
    code, printed = run_command(WITH_TORCH.replace("--venv", f"--python {find_python('torch')}"), folder)

    assert code == 0, printed
    assert "PyTorch" in printed
    assert (folder / "torch.jsonl").read_text(encoding="utf-8").startswith('{"record": "header"')
