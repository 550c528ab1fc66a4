"""Test the processes that make a call together: their answers, their failures, and their end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import gradclip_adapters
from gradclip_adapters import processes
from gradclip_adapters.contract import Array, Call, FrameworkRaised, Gradient, Unsupported
from gradclip_adapters.processes import Team

#: A module that answers calls in one of several processes. The name of the entry point says what to do.
MODULE = """
import os, time
from gradclip_adapters.contract import Array, Reply, Unsupported, framework_call
from gradclip_adapters.mesh import cut_call
import numpy as np


def load():
    return join


def join(rank, world, folder, ask):
    assert os.path.isdir(folder)

    def answer(call):
        if call.subject == "unsupported":
            raise Unsupported("no such thing", "interface")
        if call.subject == "mistake":
            raise KeyError("mine")
        if call.subject == "dies" and rank:
            os._exit(3)
        if call.subject == "forever" or (call.subject == "waits" and not rank):
            time.sleep(600)
        with framework_call():
            if call.subject == "raises" or (call.subject in ("waits", "raises-in-one") and rank):
                raise ValueError("refused")
        norm = Array.of(np.float64(rank if call.subject == "apart" else 5))
        return Reply(tuple(one.array for one in cut_call(call, rank).gradients), norm)

    return answer
"""


def make_call(*gradients: Gradient, entry_point: str = "echo") -> Call:
    return Call(entry_point, gradients, {"mesh": "ranks=2"})


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Yield a folder from which the processes of this test import modules."""
    processes.end_processes()
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    yield tmp_path
    processes.end_processes()


@pytest.fixture
def team(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Team:
    """Return two processes that answer as `MODULE` says."""
    (folder / "answering.py").write_text(MODULE, encoding="utf-8")
    monkeypatch.setattr(processes, "PATIENCE", 0.3)
    return Team("answering", 2)


def test_processes_answer_together_and_are_kept(team: Team) -> None:
    values = Array.of(np.array([1.0, 2.0, 3.0], np.float32))
    call = make_call(Gradient("a", values, placements={"ranks": 0}), Gradient("b", values))

    first = team.call(call)
    pids = list(team.pids)
    with pytest.raises(FrameworkRaised, match=r"^ValueError: refused$"):
        team.call(make_call(entry_point="raises"))
    with pytest.raises(Unsupported, match="no such thing") as refused:
        team.call(make_call(entry_point="unsupported"))
    apart = team.call(make_call(entry_point="apart"))

    assert first.gradients == tuple(g.array for g in call.gradients)
    assert first.norm == Array.of(np.float64(5.0))
    assert refused.value.kind == "interface"
    assert apart.apart == ("returned the norm 0.0 in process 0 and 1.0 in process 1",)
    assert team.pids == pids


def test_suite_is_told_when_processes_start(team: Team, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(processes, "announce", told.append)

    team.call(make_call())
    team.call(make_call())
    assert told == ["starting", "started"]

    team.stop()
    team.call(make_call())
    assert told == ["starting", "started"] * 2


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize(
    ("entry_point", "error", "text"),
    [
        ("waits", FrameworkRaised, r"refused \(in process 1; process 0 waits forever\)"),
        ("raises-in-one", FrameworkRaised, r"refused \(in process 1; process 0 returned\)"),
        ("dies", FrameworkRaised, r"the process ended \(in process 1; process 0 returned\)"),
        ("mistake", RuntimeError, "KeyError: 'mine'"),
    ],
)
def test_processes_start_anew_after_a_failure(team: Team, entry_point: str, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        team.call(make_call(entry_point=entry_point))

    assert team.call(make_call()).gradients == ()


@pytest.mark.parametrize(
    "text", ["def load():\n    return lambda *given: exit(0)\n", "raise SystemExit(0)\n"], ids=["member", "import"]
)
def test_processes_that_cannot_join_are_told(
    text: str, folder: Path, team: Team, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "failing.py").write_text(text, encoding="utf-8")
    told: list[str] = []
    monkeypatch.setattr(processes, "announce", told.append)

    with pytest.raises(RuntimeError, match="before it had joined"):
        Team("failing", 2).call(make_call())

    assert told == ["starting", "started"]
    assert team.call(make_call()).gradients == ()


def test_processes_end_with_their_host(tmp_path: Path) -> None:
    (tmp_path / "answering.py").write_text(MODULE, encoding="utf-8")
    source = str(Path(gradclip_adapters.__file__).parents[1])
    program = (
        f"import sys, threading, time; sys.path.insert(0, {source!r})\n"
        "from gradclip_adapters.contract import Call\n"
        "from gradclip_adapters import processes\n"
        "from gradclip_adapters.processes import Team\n"
        "team = Team('answering', 2)\n"
        "team.call(Call('echo', (), {'mesh': 'ranks=2'}))\n"
        "threading.Thread(target=team.call, args=(Call('forever', (), {'mesh': 'ranks=2'}),)).start()\n"
        "print(*team.pids, processes._launcher[0].pid, flush=True)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    host = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=environment, text=True)
    assert host.stdout is not None
    pids = [int(word) for word in host.stdout.readline().split()]

    host.send_signal(signal.SIGKILL)
    host.communicate()

    assert len(pids) == 3
    deadline = time.monotonic() + 30
    while any(map(is_running, pids)):
        assert time.monotonic() < deadline, "a process is left behind"
        time.sleep(0.01)


def is_running(pid: int) -> bool:
    """Tell whether a process runs. A process that has ended and that nobody has waited for does not run."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
