"""Test calls of several processes: their parts, their joined answers, and the processes themselves."""

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
from gradclip_adapters.contract import Array, Call, FrameworkRaised, Gradient, Reply, Unsupported
from gradclip_adapters.mesh import cut_call, join_replies
from gradclip_adapters.processes import Team

#: A module that answers calls in one of several processes. The name of the subject says what to do.
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


def make_gradient(values: object, sharded: int | None = None, dtype: str = "float32") -> Gradient:
    return Gradient("g", Array.of(np.array(values, dtype)), placements={} if sharded is None else {"ranks": sharded})


def make_call(*gradients: Gradient, subject: str = "echo", world: int = 2) -> Call:
    return Call(subject, gradients, {"mesh": f"ranks={world}"})


def test_call_without_a_number_of_processes_is_refused() -> None:
    with pytest.raises(Unsupported, match="in which mesh"):
        cut_call(Call("x", ()), 0)


def make_reply(gradient: list[float], norm: float, dtype: str = "float32") -> Reply:
    return Reply((Array.of(np.array(gradient, dtype)),), Array.of(np.float32(norm)), warnings=("W: x",))


def test_differences_between_the_processes_are_told() -> None:
    call = make_call(make_gradient([1.0, 2.0]))

    joined = join_replies(call, [make_reply([1.0, 2.0], 5.0), make_reply([1.0, 3.0], 4.0)])

    assert joined.apart == (
        "returned the norm 5.0 in process 0 and 4.0 in process 1",
        "returned another result 0 in process 1 than in process 0",
    )
    assert joined.norm == Array.of(np.float32(5.0))
    assert joined.warnings == ("W: x",)


def test_all_nans_are_the_same_and_both_zeros_are_not() -> None:
    call = make_call(make_gradient([1.0, 2.0]))
    other_nan = Array("float32", (2,), np.array([0xFFC00001, 0], np.uint32).tobytes())
    nans = [make_reply([np.nan, 0.0], np.nan), Reply((other_nan,), Array.of(np.float32(-np.nan)))]

    assert join_replies(call, nans).apart == ()
    assert join_replies(call, [make_reply([0.0, 1.0], 1.0), make_reply([-0.0, 1.0], 1.0)]).apart


def test_parts_that_do_not_fit_are_malformed() -> None:
    call = make_call(make_gradient([1.0, 2.0], 0))
    replies = [make_reply([1.0], 1.0), make_reply([2.0], 1.0, "float64")]

    malformed = join_replies(call, replies).malformed

    assert malformed is not None
    assert "do not fit" in malformed


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
    call = make_call(make_gradient([1.0, 2.0, 3.0], 0), make_gradient([4.0]))

    first = team.call(call)
    pids = list(team.pids)
    with pytest.raises(FrameworkRaised, match=r"^ValueError: refused$"):
        team.call(make_call(subject="raises"))
    with pytest.raises(Unsupported, match="no such thing") as refused:
        team.call(make_call(subject="unsupported"))
    apart = team.call(make_call(subject="apart"))

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
    ("subject", "error", "text"),
    [
        ("waits", FrameworkRaised, r"refused \(in process 1; process 0 waits forever\)"),
        ("raises-in-one", FrameworkRaised, r"refused \(in process 1; process 0 returned\)"),
        ("dies", FrameworkRaised, r"the process ended \(in process 1; process 0 returned\)"),
        ("mistake", RuntimeError, "KeyError: 'mine'"),
    ],
)
def test_processes_start_anew_after_a_failure(team: Team, subject: str, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        team.call(make_call(subject=subject))

    assert team.call(make_call()).gradients == ()


def test_processes_that_cannot_join_are_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "failing.py").write_text("def load():\n    return lambda *given: exit(0)\n", encoding="utf-8")
    told: list[str] = []
    monkeypatch.setattr(processes, "announce", told.append)
    with pytest.raises(RuntimeError, match="before it had joined"):
        Team("failing", 2).call(make_call())
    assert told == ["starting", "started"]


def test_team_starts_after_an_import_that_failed(folder: Path, team: Team) -> None:
    (folder / "broken.py").write_text("raise SystemExit(0)\n", encoding="utf-8")
    with pytest.raises(RuntimeError, match="before it had joined"):
        Team("broken", 2).call(make_call())

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
