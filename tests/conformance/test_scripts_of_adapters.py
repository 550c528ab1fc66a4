"""Check scripts that call a framework through its adapter: a file, or a host that a command starts."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from runs import run_command

from gradclip_adapters.client import Client
from gradclip_adapters.contract import Array, Call, FrameworkRaised, Gradient, Unsupported
from gradclip_conformance.run.host_process import build_host_command
from gradclip_conformance.skeleton.files import write_files

HOSTS = Path(__file__).with_name("hosts")
#: For each case, a line that makes the clip function wrong, and the line that it replaces.
MARK = "    # WRONG\n"
DOUBLED = (MARK, "    results = [one * one.dtype.type(2) for one in results]\n")
WRONG = {
    "global-norm.scaled-above/three-four-five/bfloat16": DOUBLED,
    "global-norm.layout/strided/float32": DOUBLED,
    "global-norm.excluded-untouched/first/float32": DOUBLED,
    "global-norm.returned-norm/above/float32": (MARK, "    norm = norm + 1\n"),
    "global-norm.inputs-not-mutated/clipped/float64": (MARK, "    tensors[0][...] = 0\n"),
    "global-norm.negative-threshold-refused/minus-one/float32": ('options["clip_norm"]', 'abs(options["clip_norm"])'),
    "global-norm.repeatable/twice/float32": (
        MARK,
        "    clip.calls = getattr(clip, 'calls', 0) + 1\n    results = [one / clip.calls for one in results]\n",
    ),
    "global-norm.overflow-of-squares/three-four-five/float32": (MARK, "    raise ValueError('cannot')\n"),
}


@pytest.fixture
def adapter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the file of an adapter whose clip function can be made wrong."""
    monkeypatch.setattr(sys, "path", [*sys.path])
    text = write_files("mine", "functional", "clip_by_global_norm")["mine.py"]
    for ability in ("excludes", "returns_norm", "strided", "repeated", "none_grads"):
        text = text.replace(f'# "{ability}",', f'"{ability}",')
    text = text.replace('("float16", "float32"', '("bfloat16", "float32"')
    clip = '    results, norm = gradclip_spec.clip_by_global_norm(tensors, options["clip_norm"])\n'
    right = (
        "    results, norm = gradclip_spec.clip_by_global_norm(\n"
        '        list(tensors), options["clip_norm"], need_clip=options["need_clip"]\n'
        f"    )\n{MARK}"
    )
    assert clip in text
    path = tmp_path / "mine.py"
    path.write_text(text.replace(clip, right), encoding="utf-8")
    return path


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize(
    ("case", "through"),
    [
        *((case, "file") for case in WRONG),
        ("global-norm.inputs-not-mutated/clipped/float64", "command"),
        ("global-norm.overflow-of-squares/three-four-five/float32", "command"),
    ],
)
def test_script_fails_only_with_the_wrong_adapter(case: str, through: str, adapter: Path, tmp_path: Path) -> None:
    text = adapter.read_text(encoding="utf-8")
    adapter.write_text(text.replace(*WRONG[case]), encoding="utf-8")
    record, script = tmp_path / "mine.jsonl", tmp_path / "script.py"
    run_command("check", adapter, "--rule", case, "-o", record)
    command = ["--command", shlex.join(build_host_command())] if through == "command" else []
    written = run_command("repro", record, case, "-o", script, *command)
    assert written.exit_code == 0, written.output

    def execute() -> subprocess.CompletedProcess[str]:
        return subprocess.run([sys.executable, script], capture_output=True, text=True, check=False)

    wrong = execute()
    adapter.write_text(text, encoding="utf-8")
    right = execute()

    assert wrong.returncode == 1, script.read_text(encoding="utf-8")
    assert "expected" in wrong.stdout + wrong.stderr or "DESIRED" in wrong.stderr, wrong.stderr
    assert "gradclip_conformance" not in script.read_text(encoding="utf-8")
    assert right.returncode == 0, right.stderr


@pytest.mark.thorough(sample=0)
def test_adapter_that_is_not_here_needs_a_command(tmp_path: Path, adapter: Path) -> None:
    record = tmp_path / "mine.jsonl"
    case = "global-norm.scaled-above/three-four-five/float32"
    run_command("check", adapter, "--rule", case, "-o", record)
    record.write_text(record.read_text(encoding="utf-8").replace(f'"{adapter}"', '"elsewhere"'), encoding="utf-8")

    assert "Name the command that starts its host with --command." in run_command("repro", record, case).output
    assert (
        'Client(["ssh", "gpu1", "host", "elsewhere"])'
        in run_command("repro", record, case, "--command", "ssh gpu1 host").stdout
    )


@pytest.mark.parametrize(
    ("way", "error", "says"),
    [
        ("raise_in_the_framework", FrameworkRaised, "not implemented on this device"),
        ("decline", Unsupported, "no thresholds of 5 here"),
        ("raise_in_the_adapter", RuntimeError, "the adapter itself failed"),
        ("exit_without_a_word", RuntimeError, "the host ended with the exit code"),
    ],
)
def test_client_raises_what_the_host_answers(
    way: str, error: type[Exception], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADCLIP_FAKE", way)
    client = Client([*build_host_command(), str(HOSTS / "misbehaves.py")])

    # The host misbehaves in a call with a threshold of 5.
    values = Array("float32", (2,), bytes.fromhex("0000404000008040"))
    try:
        with pytest.raises(error, match=says):
            client.call(Call(client.subjects()[0].name, (Gradient("g0", values),), {"clip_norm": 5.0}))
    finally:
        client.close()


def test_client_says_why_a_host_does_not_start() -> None:
    with pytest.raises(RuntimeError, match=r"the host does not start: .*no_such_framework"):
        Client([*build_host_command(), str(HOSTS / "does_not_start.py")])
