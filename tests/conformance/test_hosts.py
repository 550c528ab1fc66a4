"""Check hosts that misbehave in a call or at the start.

A bad call affects only its own cell, which gets the status listed here. No process may stay behind.
"""

from __future__ import annotations

import itertools
import math
import sys
import threading
from collections.abc import Callable
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

pytestmark = pytest.mark.usefixtures("nothing_left_behind")

#: Three cells. The case of the second one has a threshold of 5, with which each host misbehaves.
SELECTION = Selection(rules=("norm.each-tensor-alone",), dtypes=("float32",))

#: For each adapter that misbehaves: the status that its bad call must get, and a phrase of the detail.
ADAPTERS = {
    "right": ("pass", ""),
    "slow_to_start": ("pass", ""),
    "hangs": ("timeout", "No answer within 2 s"),
    "hangs_with_a_child": ("timeout", "No answer within 2 s"),
    "exits": ("crash", "exit code 7"),
    "raises": ("error", "a fault of the adapter"),
    "declines": ("unsupported", "no thresholds of 5 here"),
    "wrong_count": ("fail", "1 gradient came back for 2"),
    "other_dtype": ("fail", "came back as int32"),
}

#: The same for each function of `misbehaves.py`.
FUNCTIONS = {
    "print_in_every_way": ("pass", ""),
    "flood_standard_error": ("pass", ""),
    "read_standard_input": ("pass", ""),
    "die_by_signal": ("crash", "SIGSEGV"),
    "leave": ("crash", "out of memory, probably"),
    "return_nothing": ("error", "must return a gradclip_adapters.contract.Reply, and returned a NoneType"),
    "return_gigabytes": ("fail", "arrays of 67,108,864 bytes in all"),
    "raise_at_length": ("fail", "raised ValueError: xxx"),
    "raise_in_the_framework": ("fail", "raised NotImplementedError: not implemented on this device"),
    "send_too_few_bytes": ("crash", "bytes"),
}

#: For each way to break the protocol: the status that the bad call must get, and a phrase of the detail.
#: `test_messages.py` and tests/adapters/test_wire.py have the messages that are refused for their content.
WAYS = {
    "nothing_wrong": ("pass", ""),
    "start_slowly": ("pass", ""),
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

#: The kind of a failed start, and a phrase of the message.
STARTS = {
    "dies_at_start": ("no-host", "exit code 9"),
    "leaves_at_start": ("no-host", "a licence is missing"),
    "raises_at_start": ("bad-target", "ValueError: half written"),
    "defines_nothing": ("bad-target", "must define `adapter`"),
    "lacks_its_framework": ("missing-framework", "no_such_framework"),
    "hangs_at_start": ("start-timeout", "(did not start within|took longer than) 2 s"),
    "knows_nothing_of_itself": ("broken-adapter", r"line \d+, in about\n.*\nRuntimeError: no version to be found"),
    "misspelt_feature": ("broken-adapter", "declares the feature 'exclude', which does not exist"),
    "no_such_file": ("bad-target", "There is no file"),
}

#: For each wrong greeting: the kind of the failed start, and a phrase of the message.
GREETINGS = {
    "other_protocol": ("protocol", "The host speaks protocol 2, the suite 1"),
    "many_subjects": ("broken-adapter", "10,000 subjects in a message: the limit is 1,000"),
    "subject_twice": ("broken-adapter", "The subject 'fake' is declared twice"),
    "formula_of_no_kind": ("broken-adapter", "no formula of the kind 'x'"),
    "unknown_dtype": ("broken-adapter", ", got 'float31'"),
    "not_a_greeting": ("broken-adapter", "is not an `about`: not JSON (Expecting value): 'Welcome to the framework!'"),
}


#: A limit in seconds, longer than any machine takes for a call that ends by itself.
LONG = 200.0


class _Patient(HostProcess):
    """A host with plenty of time for every call except the one with a threshold of 5."""

    def ask(self, call: Call, timeout: float) -> Answer:
        """Use the limit of the run for the second call only."""
        return super().ask(call, timeout if call.options["clip_norm"] == 5.0 else LONG)


def run_host(command: list[str], jobs: int = 1, timeout: float = LONG) -> Run:
    """Return the run of a host over the three cells."""
    request = RunRequest("fake", lambda: _Patient(command, start_seconds=LONG), SELECTION, timeout=timeout, jobs=jobs)
    return run_adapter(request)


def choose_limit(status: str) -> float:
    """Return the limit for the second call: a short one for the hosts that never answer it."""
    return 2.0 if status == "timeout" else LONG


def check_run(run: Run, status: str, phrase: str) -> None:
    """Check that all three cells are there and that only the second one differs."""
    assert [cell.case.split("/")[1] for cell in run.cells] == ["above-and-below", "both-above", "only-together-above"]
    assert [cell.status for cell in run.cells] == ["pass", status, "pass"]
    assert phrase in run.cells[1].detail
    assert not run.footer.incomplete


@pytest.mark.thorough(sample=2)
@pytest.mark.parametrize("name", [*ADAPTERS, *FUNCTIONS])
def test_adapter_that_misbehaves_costs_one_cell(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    status, phrase = {**ADAPTERS, **FUNCTIONS}[name]
    file = "misbehaves" if name in FUNCTIONS else name
    monkeypatch.setenv("GRADCLIP_FAKE", name)

    check_run(
        run_host([*build_host_command(), str(HOSTS / f"{file}.py")], timeout=choose_limit(status)), status, phrase
    )


@pytest.mark.thorough(sample=2)
@pytest.mark.parametrize("name", WAYS)
def test_host_that_breaks_the_protocol_costs_one_cell(name: str) -> None:
    status, phrase = WAYS[name]

    check_run(
        run_host([sys.executable, str(HOSTS / "raw_host.py"), name], timeout=choose_limit(status)), status, phrase
    )


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("name", STARTS)
def test_host_that_does_not_start_says_why(name: str) -> None:
    kind, phrase = STARTS[name]

    with pytest.raises(StartError, match=phrase.replace("`", ".")) as raised:
        HostProcess([*build_host_command(), str(HOSTS / f"{name}.py")], start_seconds=2 if "hangs" in name else LONG)
    assert raised.value.kind == kind
    assert name != "misspelt_feature" or "Traceback" not in str(raised.value)


@pytest.mark.thorough(sample=1)
@pytest.mark.parametrize("name", GREETINGS)
def test_greeting_that_breaks_the_protocol_is_refused(name: str) -> None:
    kind, phrase = GREETINGS[name]

    with pytest.raises(StartError) as raised:
        HostProcess([sys.executable, str(HOSTS / "raw_host.py"), name], start_seconds=LONG)

    assert raised.value.kind == kind
    assert phrase in str(raised.value)


@pytest.mark.thorough(sample=0)
def test_host_that_never_reads_is_ended_in_time() -> None:
    host = HostProcess([sys.executable, str(HOSTS / "raw_host.py"), "never_reads_again"], start_seconds=LONG)
    # The call is larger than a pipe's buffer.
    call = Call("fake", (Gradient("g0", Array("float32", (1 << 20,), bytes(4 << 20))),), {"clip_norm": 1.0})

    assert host.ask(call, 1.0) == TimedOut(1.0)
    host.close()


def test_host_that_cannot_be_started_again_costs_the_remaining_cells(tmp_path: Path) -> None:
    adapter = tmp_path / "once.py"
    text = (HOSTS / "exits.py").read_text(encoding="utf-8")
    marker = tmp_path / "started"
    guard = f"from pathlib import Path\nassert not Path({str(marker)!r}).exists()\nPath({str(marker)!r}).touch()\n"
    adapter.write_text(f"import sys\nsys.path.append({str(HOSTS)!r})\n{guard}{text}", encoding="utf-8")

    run = run_host([*build_host_command(), str(adapter)])

    assert [cell.status for cell in run.cells] == ["pass", "crash", "crash"]
    assert "could not be started again" in run.cells[2].detail


@pytest.mark.thorough(sample=0)
def test_each_job_has_its_own_host() -> None:
    run = run_host([*build_host_command(), str(HOSTS / "exits.py")], jobs=2)

    assert sorted((cell.case.split("/")[1], cell.status) for cell in run.cells) == [
        ("above-and-below", "pass"),
        ("both-above", "crash"),
        ("only-together-above", "pass"),
    ]


def test_process_that_outlives_its_host_does_not_block_the_run(tmp_path: Path) -> None:
    adapter, number = tmp_path / "leaves_a_process.py", tmp_path / "number"
    # In its own session, the child outlives the host and keeps the host's standard error open.
    child = "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(3600)'], start_new_session=True).pid"
    kept = f"open({str(number)!r}, 'w').write(str({child}))\n"
    text = (HOSTS / "right.py").read_text(encoding="utf-8")
    adapter.write_text(f"import subprocess\nimport sys\nsys.path.append({str(HOSTS)!r})\n{kept}{text}", "utf-8")
    host = HostProcess([*build_host_command(), str(adapter)], start_seconds=LONG)

    host.close()

    left = psutil.Process(int(number.read_text(encoding="utf-8")))
    assert left.is_running()
    left.kill()


def make_call(subject: str, length: int, **options: object) -> Call:
    """Return a call with one gradient."""
    return Call(subject, (Gradient("g0", Array("float32", (length,), bytes(4 * length))),), options)


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
    host = HostProcess([*build_host_command(), str(HOSTS / "right.py")])
    limits = []
    receive = HostProcess._receive

    def note_limit(self: HostProcess, timeout: float) -> str | None:
        limits.append(timeout)
        return receive(self, timeout)

    try:
        monkeypatch.setattr(HostProcess, "_receive", note_limit)
        call = make_call(host.description.subjects[0].name, 2, clip_norm=1.0, compiled=True)
        for _ in range(2):
            host.ask(call, LONG)
        host.renew()
        host.ask(call, LONG)
    finally:
        host.close()

    # Starting the second process also receives two messages, with other limits. Leave those out.
    assert [limit for limit in limits if limit in (LONG, 4 * LONG)] == [4 * LONG, LONG, 4 * LONG]


def ask_raw_host(way: str, seconds: float, start_seconds: float = LONG) -> Answer:
    """Return the answer to the bad call of `raw_host.py`."""
    host = HostProcess([sys.executable, str(HOSTS / "raw_host.py"), way], start_seconds=LONG)
    host.start_seconds = start_seconds
    try:
        return host.ask(make_call(host.description.subjects[0].name, 2, clip_norm=5.0), seconds)
    finally:
        host.close()


@pytest.mark.thorough(sample=0)
def test_start_of_processes_is_not_the_time_of_the_call() -> None:
    # The start takes a second.
    assert isinstance(ask_raw_host("start_slowly", 0.6), Replied)


def test_processes_that_never_start_are_told() -> None:
    answer = ask_raw_host("never_started", LONG, start_seconds=0.5)

    assert isinstance(answer, TimedOut)
    assert answer.text == "The processes of the framework did not start within 0.5 s."


@pytest.mark.thorough(sample=0)
@pytest.mark.parametrize(("name", "bad"), [("hangs", TimedOut), ("exits", Died)])
def test_call_that_was_begun_costs_no_other_call(name: str, bad: type[Answer]) -> None:
    host = HostProcess([*build_host_command(), str(HOSTS / f"{name}.py")], start_seconds=LONG)
    subject = host.description.subjects[0].name
    calls = [make_call(subject, 2, clip_norm=threshold) for threshold in (1.0, 5.0, 2.0)]

    try:
        for call in calls:
            host.begin(call)
        # The bad call stands before this one, so that only a new process answers it.
        last = host.ask(calls[2], 2.0)
        first = host.ask(calls[0], LONG)
        second = host.ask(calls[1], 2.0)
    finally:
        host.close()

    assert isinstance(last, Replied)
    assert last == first
    assert isinstance(second, bad)


def test_calls_that_were_begun_keep_their_answers() -> None:
    host = HostProcess([*build_host_command(), str(HOSTS / "right.py")], start_seconds=LONG)
    subject = host.description.subjects[0].name
    calls = [make_call(subject, length, clip_norm=1.0) for length in (1, 2, 3)]

    try:
        for call in calls[:2]:
            host.begin(call)
        answers = [host.ask(call, LONG) for call in (calls[2], calls[1], calls[0])]
        assert host._number == 3
    finally:
        host.close()

    replies = [answer.reply for answer in answers if isinstance(answer, Replied)]
    assert [array.shape for reply in replies for array in reply.gradients if array is not None] == [(3,), (2,), (1,)]


class Noting(InProcess):
    """A connection that notes which calls are begun and asked, in their order."""

    def __init__(self) -> None:
        """Begin without notes."""
        super().__init__(resolve("numpy"))
        self.notes: list[tuple[str, Call]] = []

    def begin(self, call: Call) -> None:
        """Note the call."""
        self.notes.append(("begin", call))

    def ask(self, call: Call, timeout: float) -> Answer:
        """Note the call, and answer it."""
        self.notes.append(("ask", call))
        return super().ask(call, timeout)


@pytest.mark.parametrize(("calls", "size", "begun"), [(3, 1 << 20, 3), (100, 1, 1)])
def test_so_many_calls_are_under_way(monkeypatch: pytest.MonkeyPatch, calls: int, size: int, begun: int) -> None:
    monkeypatch.setattr(runner, "CALLS_UNDER_WAY", calls)
    monkeypatch.setattr(runner, "BYTES_UNDER_WAY", size)
    connection = Noting()
    selection = Selection(rules=("global-norm.scaled-above",), dtypes=("float32",))
    planned = [
        cell
        for cell in plan_cells(connection.description.subjects, list_all_cases(), selection)
        if cell.missing is None and sum(math.prod(one.array.shape) for one in cell.case.gradients if one.array) < 100
    ][:10]
    connection.notes.clear()

    cells = list(runner.run_cells(connection, planned, LONG))

    assert {cell.status for cell in cells} == {"pass"}
    words = [word for word, _ in connection.notes]
    assert words[: begun + 1] == ["begin"] * begun + ["ask"]
    asked = [call for word, call in connection.notes if word == "ask"]
    assert asked == [call for word, call in connection.notes if word == "begin"]
    assert len(asked) == len(planned) == 10


def run_noting(first: str, *others: str) -> tuple[list[PlannedCell], list[Cell], list[tuple[str, Call]]]:
    """Run the float32 cells of rules, those of the first rule first. Return plan, cells, and the connection's notes."""
    connection = Noting()
    selection = Selection(rules=(first, *others), dtypes=("float32",))
    planned = plan_cells(connection.description.subjects, list_all_cases(), selection)
    planned.sort(key=lambda one: one.case.rule != first)
    connection.notes.clear()
    cells = list(runner.run_cells(connection, planned, LONG))
    assert {cell.status for cell in cells} == {"pass"}
    return planned, cells, connection.notes


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
    subjects = [one for one in InProcess(resolve("numpy")).description.subjects if one.operation == "clip_by_norm"]
    planned = plan_cells(subjects, list_all_cases(), Selection())

    assert len(subjects) == 2
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
