"""Check hosts that misbehave in a call or at the start.

A bad call affects only its own cell, which gets the status listed here. No process may stay behind.
"""

from __future__ import annotations

import itertools
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from gradclip_adapters.contract import Array, Call, EntryPoint, Gradient
from gradclip_adapters.registry import resolve
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.judge.model import Answer, Died, Replied, StartError, TimedOut
from gradclip_conformance.run import runner
from gradclip_conformance.run.host_process import HostProcess, build_host_command
from gradclip_conformance.run.in_process import InProcess
from gradclip_conformance.run.plan import PlannedCell, Selection, plan_cells
from gradclip_conformance.run.probing import TimeLimits
from gradclip_conformance.run.runner import RunRequest, run_adapter
from gradclip_conformance.sampler.rows import find_row
from gradclip_reports.records import Cell, Run

HOSTS = Path(__file__).with_name("hosts")
RAW_HOST = [sys.executable, str(HOSTS / "raw_host.py")]
RIGHT, MISBEHAVES, DOES_NOT_START = (
    [*build_host_command(), str(HOSTS / f"{name}.py")] for name in ("right", "misbehaves", "does_not_start")
)

pytestmark = pytest.mark.usefixtures("nothing_left_behind")

#: Three cells. The case of the second one has a threshold of 5, with which each host misbehaves.
SELECTION = Selection(rules=("norm.each-tensor-alone",), dtypes=("float32",))

#: For each function of `misbehaves.py`: the status that the bad call must get, and a phrase of the detail.
FUNCTIONS = {
    "print_in_every_way": ("pass", ""),
    "flood_standard_error": ("pass", ""),
    "read_standard_input": ("pass", ""),
    "hang": ("timeout", "No answer within 2 s"),
    "hang_with_a_child": ("timeout", "No answer within 2 s"),
    "exit_without_a_word": ("crash", "exit code 7"),
    "exit_with_a_reason": ("crash", "out of memory, probably"),
    "die_by_signal": ("crash", "SIGSEGV"),
    "raise_in_the_adapter": ("error", "a fault of the adapter"),
    "raise_in_the_framework": ("fail", "raised NotImplementedError: not implemented on this device"),
    "raise_at_length": ("fail", "raised ValueError: xxx"),
    "decline": ("unsupported", "no thresholds of 5 here"),
    "return_nothing": ("error", "must return a gradclip_adapters.contract.Reply, and returned a NoneType"),
    "return_gigabytes": ("fail", "arrays of 67,108,864 bytes in all"),
    "return_one_gradient_too_few": ("fail", "1 gradient came back for 2"),
    "return_integers": ("fail", "came back as int32"),
    "send_too_few_bytes": ("crash", "bytes"),
}

#: For each way to break the protocol: the status that the bad call must get, and a phrase of the detail.
#: `test_messages.py` and tests/adapters/test_wire.py have the messages that are refused for their content.
WAYS = {
    "nothing_wrong": ("pass", ""),
    "start_and_hang": ("timeout", "No answer within 2 s"),
    "start_again_and_again": ("crash", "answered call None"),
    "wrong_number": ("crash", "answered call 4711"),
    "rubbish": ("crash", "Loading weights"),
    "binary": ("crash", "not JSON"),
    "lines_without_an_end": ("crash", "not JSON"),
    "closes_its_output": ("crash", "closed its output"),
    "half_a_line": ("timeout", "No answer within 2 s"),
    "half_a_line_and_an_end": ("crash", "not JSON"),
}

#: For each way of `does_not_start.py`: the kind of the failed start, and a phrase of the message.
STARTS = {
    "dies": ("no-host", "exit code 9"),
    "leaves": ("no-host", "a licence is missing"),
    "raises": ("bad-target", "ValueError: half written"),
    "defines_nothing": ("bad-target", "must define `adapter`"),
    "lacks_its_framework": ("missing-framework", "no_such_framework"),
    "lacks_its_device": ("missing-device", "^Fake finds no device 'cuda' on this machine.$"),
    "hangs": ("start-timeout", "(did not start within|took longer than) 2 s"),
    "knows_nothing_of_itself": ("broken-adapter", r"line \d+, in about\n.*\nRuntimeError: no version to be found"),
    "misspells_a_feature": ("broken-adapter", "declares the feature 'exclude', which does not exist"),
}

#: For each wrong greeting: the kind of the failed start, and a phrase of the message.
GREETINGS = {
    "other_protocol": ("protocol", "The host speaks protocol 2, the suite 1"),
    "many_entry_points": ("broken-adapter", "10,000 entry points in a message: the limit is 1,000"),
    "entry_point_twice": ("broken-adapter", "The entry point 'fake' is declared twice"),
    "formula_of_no_kind": ("broken-adapter", "no formula of the kind 'x'"),
    "unknown_dtype": ("broken-adapter", ", got 'float31'"),
    "not_a_greeting": ("broken-adapter", "is not an `about`: not JSON (Expecting value): 'Welcome to the framework!'"),
}


#: A limit in seconds, longer than any machine takes for a call that ends by itself.
LONG = 200.0


class _Patient(HostProcess):
    """A host with plenty of time for every call except the one with a threshold of 5."""

    def ask(self, call: Call, timeout: float) -> Answer:
        return super().ask(call, timeout if call.options["clip_norm"] == 5.0 else LONG)


def run_host(command: list[str], jobs: int = 1, timeout: float = LONG) -> Run:
    """Return the run of a host over the three cells."""
    request = RunRequest("fake", lambda: _Patient(command, start_seconds=LONG), SELECTION, timeout=timeout, jobs=jobs)
    return run_adapter(request)


def check_run(command: list[str], status: str, phrase: str) -> None:
    """Run a host, and check that all three cells are there and that only the second one differs."""
    # The limit of the second call is short only for the hosts that never answer it.
    run = run_host(command, timeout=2.0 if status == "timeout" else LONG)

    assert [cell.case.split("/")[1] for cell in run.cells] == ["above-and-below", "both-above", "only-together-above"]
    assert [cell.status for cell in run.cells] == ["pass", status, "pass"]
    assert phrase in run.cells[1].detail
    assert not run.footer.incomplete


@pytest.mark.thorough(sample=4)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_adapter_that_misbehaves_costs_one_cell(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADCLIP_FAKE", name)

    check_run(MISBEHAVES, *FUNCTIONS[name])


@pytest.mark.thorough(sample=2)
@pytest.mark.parametrize("name", WAYS)
def test_host_that_breaks_the_protocol_costs_one_cell(name: str) -> None:
    check_run([*RAW_HOST, name], *WAYS[name])


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("name", STARTS)
def test_host_that_does_not_start_says_why(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kind, phrase = STARTS[name]
    monkeypatch.setenv("GRADCLIP_FAKE", name)

    with pytest.raises(StartError, match=phrase) as raised:
        HostProcess(DOES_NOT_START, start_seconds=2 if name == "hangs" else LONG)
    assert raised.value.kind == kind
    assert name != "misspells_a_feature" or "Traceback" not in str(raised.value)


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("name", GREETINGS)
def test_greeting_that_breaks_the_protocol_is_refused(name: str) -> None:
    kind, phrase = GREETINGS[name]

    with pytest.raises(StartError) as raised:
        HostProcess([*RAW_HOST, name], start_seconds=LONG)

    assert raised.value.kind == kind
    assert phrase in str(raised.value)


def make_call(entry_point: str, length: int, **options: object) -> Call:
    """Return a call with one gradient."""
    return Call(entry_point, (Gradient("g0", Array("float32", (length,), bytes(4 * length))),), options)


@pytest.mark.thorough(sample=0)
def test_host_that_never_reads_is_ended_in_time() -> None:
    with closing(HostProcess([*RAW_HOST, "never_reads_again"], start_seconds=LONG)) as host:
        # The call is larger than a pipe's buffer.
        assert host.ask(make_call("fake", 1 << 20, clip_norm=1.0), 1.0) == TimedOut(1.0)


def write_adapter(path: Path, start: str, adapter: str) -> list[str]:
    """Write a file with an adapter of a host that runs a statement at its start. Return the command of the host."""
    path.write_text(f"import sys\nsys.path.append({str(HOSTS)!r})\n{start}\nfrom {adapter} as adapter\n", "utf-8")
    return [*build_host_command(), str(path)]


def test_host_that_cannot_be_started_again_costs_the_remaining_cells(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GRADCLIP_FAKE", "exit_without_a_word")
    make_folder = f"import os; os.mkdir({str(tmp_path / 'started')!r})"

    run = run_host(write_adapter(tmp_path / "once.py", make_folder, "misbehaves import Fake"))

    assert [cell.status for cell in run.cells] == ["pass", "crash", "crash"]
    assert "could not be started again" in run.cells[2].detail


@pytest.mark.thorough(sample=0)
def test_each_job_has_its_own_host(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADCLIP_FAKE", "exit_without_a_word")

    run = run_host(MISBEHAVES, jobs=2)

    assert [cell.status for cell in run.cells] == ["pass", "crash", "pass"]


def test_process_that_outlives_its_host_does_not_block_the_run(tmp_path: Path) -> None:
    number = tmp_path / "number"
    # In its own session, the child outlives the host and keeps the host's standard error open.
    child = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)'], start_new_session=True).pid"
    start = f"import subprocess; open({str(number)!r}, 'w').write(str({child}))"

    HostProcess(write_adapter(tmp_path / "parent.py", start, "right import Right"), start_seconds=LONG).close()

    left = psutil.Process(int(number.read_text(encoding="utf-8")))
    assert left.is_running()
    left.kill()


def test_first_compilation_of_a_shape_has_more_time() -> None:
    limits = TimeLimits([EntryPoint("f[jit]", "clip_by_norm", ("float32",), ("compiled",))])
    answered = Died("any answer in time")

    assert limits.find(make_call("f", 2, clip_norm=1.0), 30) == 30
    assert limits.find(make_call("f", 2, clip_norm=1.0, compiled=True), 30) == 120
    assert limits.find(make_call("f[jit]", 2, clip_norm=1.0), 30) == 120
    limits.note(make_call("f[jit]", 2, clip_norm=1.0), answered)
    assert limits.find(make_call("f[jit]", 2, clip_norm=9.0), 30) == 30
    assert limits.find(make_call("f[jit]", 3, clip_norm=9.0), 30) == 120
    # After a call has hung with the longer limit, it gets the ordinary limit, even in a new process.
    limits.note(make_call("f[jit]", 3, clip_norm=9.0), TimedOut(120))
    limits.forget()
    assert limits.find(make_call("f[jit]", 3, clip_norm=9.0), 30) == 30
    assert limits.find(make_call("f[jit]", 2, clip_norm=9.0), 30) == 120


def test_call_with_many_gradients_has_more_time_until_it_hangs() -> None:
    limits = TimeLimits()
    call = Call("f", tuple(make_call("f", 2).gradients * 101), {"clip_norm": 1.0})

    assert limits.find(replace(call, gradients=call.gradients[1:]), 30) == 30
    assert limits.find(call, 30) == 120
    limits.note(call, Died("any answer in time"))
    assert limits.find(call, 30) == 120
    limits.note(call, TimedOut(120))
    assert limits.find(call, 30) == 30


def test_new_host_process_compiles_again(monkeypatch: pytest.MonkeyPatch) -> None:
    limits = []
    receive = HostProcess._receive

    def note_limit(self: HostProcess, timeout: float) -> str | None:
        limits.append(timeout)
        return receive(self, timeout)

    with closing(HostProcess(RIGHT)) as host:
        monkeypatch.setattr(HostProcess, "_receive", note_limit)
        call = make_call("fake", 2, clip_norm=1.0, compiled=True)
        for _ in range(2):
            host.ask(call, LONG)
        host.renew()
        host.ask(call, LONG)

    # Starting the second process also receives two messages, with other limits. Leave those out.
    assert [limit for limit in limits if limit in (LONG, 4 * LONG)] == [4 * LONG, LONG, 4 * LONG]


def ask_raw_host(way: str, seconds: float, start_seconds: float = LONG) -> Answer:
    """Return the answer to the bad call of `raw_host.py`."""
    with closing(HostProcess([*RAW_HOST, way], start_seconds=LONG)) as host:
        host.start_seconds = start_seconds
        return host.ask(make_call("fake", 2, clip_norm=5.0), seconds)


@pytest.mark.thorough(sample=0)
def test_start_of_processes_is_not_the_time_of_the_call() -> None:
    # The start takes a second.
    assert isinstance(ask_raw_host("start_slowly", 0.6), Replied)


def test_processes_that_never_start_are_told() -> None:
    answer = ask_raw_host("never_started", LONG, start_seconds=0.5)

    assert isinstance(answer, TimedOut)
    assert answer.text == "The processes of the framework did not start within 0.5 s."


@pytest.mark.thorough(sample=0)
@pytest.mark.parametrize(("name", "bad"), [("hang", TimedOut), ("exit_without_a_word", Died)])
def test_call_that_was_begun_costs_no_other_call(name: str, bad: type[Answer], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GRADCLIP_FAKE", name)
    calls = [make_call("fake", 2, clip_norm=threshold) for threshold in (1.0, 5.0, 2.0)]

    with closing(HostProcess(MISBEHAVES, start_seconds=LONG)) as host:
        for call in calls:
            host.begin(call)
        # The bad call stands before this one, so that only a new process answers it.
        last = host.ask(calls[2], 2.0)
        first = host.ask(calls[0], LONG)
        second = host.ask(calls[1], 2.0)

    assert isinstance(last, Replied)
    assert last == first
    assert isinstance(second, bad)


def test_calls_that_were_begun_keep_their_answers() -> None:
    calls = [make_call("fake", length, clip_norm=1.0) for length in (1, 2, 3)]

    with closing(HostProcess(RIGHT, start_seconds=LONG)) as host:
        for call in calls[:2]:
            host.begin(call)
        answers = [host.ask(call, LONG) for call in (calls[2], calls[1], calls[0])]
        assert host._number == 3

    replies = [answer.reply for answer in answers if isinstance(answer, Replied)]
    assert [array.shape for reply in replies for array in reply.gradients if array is not None] == [(3,), (2,), (1,)]


class Noting(InProcess):
    """A connection that notes which calls are begun and asked, in their order."""

    def __init__(self) -> None:
        super().__init__(resolve("numpy"))
        self.notes: list[tuple[str, Call]] = []

    def begin(self, call: Call) -> None:
        self.notes.append(("begin", call))

    def ask(self, call: Call, timeout: float) -> Answer:
        self.notes.append(("ask", call))
        return super().ask(call, timeout)


def run_noting(
    first: str, *others: str, count: int | None = None
) -> tuple[list[PlannedCell], list[Cell], list[tuple[str, Call]]]:
    """Run the float32 cells of rules, those of the first rule first. Return plan, cells, and the connection's notes."""
    connection = Noting()
    selection = Selection(rules=(first, *others), dtypes=("float32",))
    planned = plan_cells(connection.description.subjects, list_all_cases(), selection)
    planned.sort(key=lambda one: one.case.rule != first)
    connection.notes.clear()
    cells = list(runner.run_cells(connection, planned[:count], LONG))
    assert {cell.status for cell in cells} == {"pass"}
    return planned, cells, connection.notes


@pytest.mark.parametrize(("calls", "size", "begun"), [(3, 1 << 30, 3), (100, 1, 1)])
def test_so_many_calls_are_under_way(monkeypatch: pytest.MonkeyPatch, calls: int, size: int, begun: int) -> None:
    monkeypatch.setattr(runner, "CALLS_UNDER_WAY", calls)
    monkeypatch.setattr(runner, "BYTES_UNDER_WAY", size)

    _, _, notes = run_noting("global-norm.scaled-above", count=10)

    words = [word for word, _ in notes]
    assert words[: begun + 1] == ["begin"] * begun + ["ask"]
    asked = [call for word, call in notes if word == "ask"]
    assert asked == [call for word, call in notes if word == "begin"]
    assert len(asked) == 10


def test_second_call_begins_with_the_first_one_unless_it_needs_the_answer() -> None:
    planned, _, notes = run_noting("global-norm.repeatable")

    calls = {word: [call for each, call in notes if each == word] for word in ("begin", "ask")}
    assert calls["begin"] == calls["ask"]
    assert len(calls["ask"]) == 2 * len(planned)


def test_second_call_that_needs_the_answer_waits_for_the_other_cells(monkeypatch: pytest.MonkeyPatch) -> None:
    # No call waits for the answer to a long one.
    monkeypatch.setattr(runner, "BYTES_UNDER_WAY", 1 << 30)
    planned, cells, notes = run_noting("global-norm.twice-is-once", "global-norm.scaled-above")

    related = sum(one.case.rule == "global-norm.twice-is-once" for one in planned)
    words = [word for word, _ in notes]
    assert words == ["begin"] * len(planned) + ["ask", "begin"] * related + ["ask"] * len(planned)
    assert [(cell.subject, cell.case) for cell in cells] == [one.pair for one in planned]


def test_slow_cases_are_planned_at_even_distances_and_each_case_at_once() -> None:
    entry_points = [one for one in InProcess(resolve("numpy")).description.subjects if one.operation == "clip_by_norm"]
    planned = plan_cells(entry_points, list_all_cases(), Selection())

    assert len(entry_points) == 2
    assert [cell.case.id for cell in planned[::2]] == [cell.case.id for cell in planned[1::2]]
    slow = [place for place, cell in enumerate(planned[::2]) if {"threads", "compiles"} & cell.case.needs]
    assert len(slow) > 20
    distances = [after - before for before, after in itertools.pairwise(slow)]
    assert max(distances) - min(distances) <= 1
    assert {slow[0], len(planned) // 2 - slow[-1]} <= set(range(min(distances)))


def test_rows_are_asked_at_even_distances_among_written_cases() -> None:
    selection = Selection(("clip_by_value",), dtypes=("float16",))

    cells = run_adapter(RunRequest("numpy", lambda: InProcess(resolve("numpy")), selection, rows=60)).cells

    rows = [place for place, (case, _) in enumerate(itertools.groupby(cell.case for cell in cells)) if find_row(case)]
    distances = [after - before for before, after in itertools.pairwise(rows)]
    assert len(rows) > 5
    assert min(distances) > 1
    assert max(distances) - min(distances) <= 1


@pytest.mark.thorough(sample=0)
def test_slow_cell_holds_up_only_its_own_job() -> None:
    selection = Selection(rules=("global-norm.scaled-above",), dtypes=("float32",))

    def run_with(connect: Callable[[], InProcess], jobs: int) -> int:
        return len(run_adapter(RunRequest("numpy", connect, selection, jobs=jobs)).cells)

    count = run_with(lambda: InProcess(resolve("numpy")), 1)
    lock, others_are_done, places = threading.Lock(), threading.Event(), itertools.count(1)
    waited: list[bool] = []

    class Slow(InProcess):
        """A connection whose first call of a run waits for all other calls."""

        def ask(self, call: Call, timeout: float) -> Answer:
            with lock:
                place = next(places)
            if place == 1:
                waited.append(others_are_done.wait(20))
            answer = super().ask(call, timeout)
            if place == count:
                others_are_done.set()
            return answer

    assert count > 4
    assert run_with(lambda: Slow(resolve("numpy")), 2) == count
    assert waited == [True]
