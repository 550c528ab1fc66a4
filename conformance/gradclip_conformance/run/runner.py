"""Run the cells of one adapter: connect, plan, call, judge, and note each cell as soon as it is finished.

Connecting may raise `StartError`, and writing `OSError`. Calls do not raise, because the death or hang of a host is an
answer. Judging does not raise, because an error in the judge becomes the status `error`. A Ctrl-C ends the hosts and
raises `KeyboardInterrupt` again.
"""

from __future__ import annotations

import contextlib
import datetime
import heapq
import re
import sys
import threading
import time
import traceback
from collections import Counter, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.metadata import version
from operator import itemgetter
from typing import TypeVar

from gradclip_adapters.contract import EntryPoint
from gradclip_adapters.wire import encode_entry_point
from gradclip_reports.limits import shorten
from gradclip_reports.progress import Progress
from gradclip_reports.records import Cell, Finding, Header, Run, check_cell, make_footer
from gradclip_reports.statuses import DIFFERING, Status
from gradclip_spec import rules

from ..cases.catalogue import list_all_cases
from ..cases.model import Case
from ..cases.readable import show_input
from ..causes.attribution import explain_all, explain_cell
from ..causes.findings import find_findings, keep_evidence, list_asked_rules
from ..causes.model import Evidence, Explanation, Judged
from ..causes.results import STATE_KEPT
from ..causes.traits import EXPLAINED
from ..judge.judging import choose_expectation, follow_up, judge
from ..judge.model import Answer, Claim, Connection, Context, Description, Verdict
from ..known.claims import load_claims_of
from ..known.failures import KnownFailure, load_known_of
from ..known.recognition import find_entry, is_known_to_end, judge_with_known
from ..oracle.formula import Formula
from ..oracle.predict import name_second_oracle
from ..sampler.draw import ROWS
from ..sampler.rows import RowCase, find_row, list_cases
from .abilities import AbilityProbes
from .asking import ask_case, begin_case
from .host_process import CASE_SECONDS, run_stopped
from .plan import PlannedCell, Selection, add_formula, find_case, plan_case, plan_cells, spread

__all__ = [
    "CASE_SECONDS",
    "CannotResumeError",
    "Knowledge",
    "RunRequest",
    "ask_again",
    "explain_findings",
    "load_knowledge",
    "make_header",
    "plan_rows",
    "run_adapter",
    "run_cell",
    "run_cells",
    "start_and_list",
]

#: The longest wait for the jobs. If a signal arrives just before a wait, Python handles it only after the wait.
SIGNAL_SECONDS = 0.25

#: The number of calls that a host may answer while the suite judges an earlier answer, and the bytes of their gradients
#: from which on no other one is sent. Heavy calls come together, and so do heavy verdicts: with two calls under way,
#: host and suite wait for each other, and a run of NumPy takes half as long again. With 128, it takes 5 % longer.
CALLS_UNDER_WAY, BYTES_UNDER_WAY = 512, 8 << 20

#: The options that make a call part of several calls.
BESIDE_OTHERS = {"reused", "followed", "threads", "mesh"}

#: Each mode of a function but the first gets one of so many rows.
OF_MODES = 4

#: The folders of an absolute path, alone or after a sign, such as in `--output=/data/runs/run.jsonl`.
FOLDERS = re.compile(r"(?<![^\s=,:'\"])(?:[A-Za-z]:)?[\\/](?:[^\\/\s=]+[\\/])+")

RULES = {rule.id: rule for rule in rules.load()}

Started = TypeVar("Started")


def plan_rows(
    entry_points: Sequence[EntryPoint], selection: Selection, rows: int = ROWS, seed: int = 0, *, quick: bool = False
) -> list[PlannedCell]:
    """Return the cells of the sampler. Each entry point gets only calls that its abilities allow.

    The modes of a function share its rows.

    With `quick`, rows that take much time are left out, unless the selection names them.

    The cells are sorted by row within an operation, so that the data of a row are made and measured once for all its
    entry points. If the selection names rows, these are planned, whatever seed drew them.
    """
    named = [row for name in (*selection.cases, *selection.rules) if (row := find_row(name)) is not None]
    if named:
        return [cell for cell in plan_cells(entry_points, named, selection) if cell.missing is None]
    found: list[PlannedCell] = []
    for operation in dict.fromkeys(entry_point.operation for entry_point in entry_points):
        if selection.operations and operation not in selection.operations:
            continue
        alike = [entry_point for entry_point in entry_points if entry_point.operation == operation]
        dealt = [_deal_rows(entry_point, place, rows, seed) for entry_point, place in _number_modes(alike)]
        found += [
            PlannedCell(entry_point, case, None)
            for _, entry_point, case in heapq.merge(*dealt, key=itemgetter(0))
            if selection.holds(case) and not (quick and case.takes_long)
        ]
    return found


def _number_modes(entry_points: Sequence[EntryPoint]) -> Iterator[tuple[EntryPoint, int]]:
    """Yield each entry point with its place among the modes of its function."""
    modes: Counter[str] = Counter()
    for entry_point in entry_points:
        function, _, _ = entry_point.name.partition("[")
        yield entry_point, modes[function]
        modes[function] += 1


def _deal_rows(entry_point: EntryPoint, place: int, rows: int, seed: int) -> Iterator[tuple[int, EntryPoint, RowCase]]:
    """Yield the rows of a mode, with their numbers.

    The modes of a function share most of its code. So the first mode gets all rows, and each other one its own part.
    """
    for number, case in list_cases(entry_point, rows, seed):
        if place == 0 or number % OF_MODES == place % OF_MODES:
            yield number, entry_point, case


@dataclass(frozen=True)
class RunRequest:
    """The options of a run."""

    adapter: str
    connect: Callable[[], Connection]
    selection: Selection = field(default_factory=Selection)
    timeout: float = CASE_SECONDS
    jobs: int = 1
    command: Sequence[str] = ()
    #: The number of rows for each entry point, and the seed that they are drawn from.
    rows: int = ROWS
    seed: int = 0
    #: Additional rows, such as the smallest ones that fail.
    more_rows: Sequence[PlannedCell] = ()
    #: The formula that the entry points are meant to have, if the command line names one.
    formula: Formula | None = None
    #: Whether to ask no written case, and no row that takes much time.
    quick: bool = False
    #: The part of this run that is there already, because the run was cut off.
    earlier: Run | None = None


class CannotResumeError(Exception):
    """A run cannot go on from the part that is there. The text says why."""


@dataclass
class Knowledge:
    """The claims about an adapter's framework, its known failures, and what probes have shown of its abilities."""

    claims: Sequence[Claim] = ()
    known: Sequence[KnownFailure] = ()
    probes: AbilityProbes = field(default_factory=AbilityProbes)


@dataclass
class _RunState:
    """What all jobs of a run share."""

    knowledge: Knowledge
    connections: list[Connection]
    stopped: threading.Event = field(default_factory=threading.Event)
    #: The wrong cells, with their answers.
    evidence: list[Evidence] = field(default_factory=list)


def start_and_list(start: Callable[[], Started], *, with_cases: bool = True) -> tuple[Started, Sequence[Case]]:
    """Return what starts, and all written cases, which are made while it starts."""
    with ThreadPoolExecutor(1) as pool:
        cases = pool.submit(list_all_cases if with_cases else tuple[Case, ...])
        return start(), cases.result()


def run_adapter(
    request: RunRequest, progress: Progress | None = None, note: Callable[[Header | Cell], None] | None = None
) -> Run:
    """Run one adapter. `note` gets the header and each cell at once.

    Raises
    ------
    CannotResumeError
        If the part that is there already is of another run.
    StartError
        If the adapter does not start.
    KeyboardInterrupt
        On Ctrl-C, after the hosts have been ended.
    """
    progress = progress or Progress()
    first, written = start_and_list(request.connect, with_cases=not request.quick)
    try:
        entry_points = add_formula(first.description.subjects, request.formula)
        description = replace(first.description, subjects=tuple(entry_points))
        planned = plan_cells(description.subjects, written, request.selection)
        rows = plan_rows(description.subjects, request.selection, request.rows, request.seed, quick=request.quick)
        more = {cell.pair: cell for cell in request.more_rows}
        planned = spread(planned, [cell for cell in rows if not more or cell.pair not in more], more.values())
        state = _RunState(load_knowledge(request.adapter, description), [first])
        header = make_header(request.adapter, description, request.command, request.seed)
        done: dict[tuple[str, str], Cell] = {}
        if request.earlier is not None:
            done = _choose_cells_that_stay(request.earlier, header, planned)
            header = request.earlier.header
        if note is not None:
            note(header)
        waiting = deque(cell for cell in planned if cell.pair not in done)
        # Several jobs finish the cells in any order. A run has the order of the plan.
        is_mixed = request.jobs > 1 or bool(done)
        order = {cell.pair: place for place, cell in enumerate(planned)} if is_mixed else {}
        progress.note_start(request.adapter, description.heading, len(planned))
        # A planned cell is needed no more when it is finished, and there may be a hundred thousand.
        del planned, rows
        cells: list[Cell] = []
        lock = threading.Lock()

        def finish(cell: Cell) -> None:
            with lock:
                check_cell(cell)
                if note is not None and cell.pair not in done:
                    note(cell)
                cells.append(cell)
                progress.note_finish(cell)

        for cell in done.values():
            finish(cell)
        _run_all(request, state, waiting, finish)
        if is_mixed:
            cells.sort(key=lambda cell: order[cell.pair])
            state.evidence.sort(key=lambda one: order[one.cell.pair])
        known = state.knowledge.known
        findings = explain_findings(state.evidence, list_asked_rules(cells), known, first, request.timeout)
    finally:
        first.close()
    return Run(header, tuple(cells), make_footer(cells), tuple(findings))


def load_knowledge(adapter: str, description: Description) -> Knowledge:
    """Return the claims about an adapter's framework, and its known failures, before any probe."""
    about = adapter, description.version, description.environment
    return Knowledge(load_claims_of(*about), load_known_of(*about))


def _choose_cells_that_stay(
    earlier: Run, header: Header, planned: Sequence[PlannedCell]
) -> dict[tuple[str, str], Cell]:
    """Return the cells of an earlier part that need not be asked again. Refuse a part of another run.

    Cells with an answer that findings explain are asked again, because findings need the whole answer.
    """
    for name in ("suite", "adapter", "framework", "environment", "subjects", "seed"):
        # Make both comparable: JSON has lists only.
        before, now = (each.to_json()[name] for each in (earlier.header, header))
        if before != now:
            message = (
                f"it was made with another {name}: {shorten(repr(before), 100)}, and now {shorten(repr(now), 100)}"
            )
            raise CannotResumeError(message)
    pairs = {cell.pair for cell in planned}
    if any(cell.pair not in pairs for cell in earlier.cells):
        message = "it was made with other options; repeat the command with the same ones"
        raise CannotResumeError(message)
    return {cell.pair: cell for cell in earlier.cells if cell.status not in EXPLAINED}


def explain_findings(
    evidence: Sequence[Evidence],
    asked: Collection[tuple[str, str, str]] = (),
    known: Sequence[KnownFailure] = (),
    connection: Connection | None = None,
    timeout: float = 0,
) -> list[Finding]:
    """Return the findings that explain cells.

    `asked` holds the rules that were asked (see `list_asked_rules`). With a connection, calls are made again whose
    answers were too large to be kept, and a few unexplained ones, each within `timeout` seconds.
    """
    cells = [one.judged for one in evidence]
    if connection is None:
        found = explain_all(cells, asked)
    else:
        found = explain_all(cells, asked, partial(ask_again, connection, timeout))
        found = _explain_by_earlier_calls(connection, evidence, found, timeout)
    return find_findings(evidence, found, lambda cell, one: find_entry(known, cell.case, cell.subject, one))


def ask_again(connection: Connection, timeout: float, judged: Judged) -> Judged:
    """Return a cell with its answers, which were dropped. Return it without them if they do not show the same fault.

    A sum may round otherwise in each call, so that other answers may be as wrong as the first ones.
    """
    entry_point, found = judged.context.subject, find_case(judged.context.case.id)
    if found is None:
        return judged
    context = replace(judged.context, case=plan_case(entry_point, found).case.make())
    answers = _ask(connection, context.case, entry_point, timeout)
    again = replace(judged, context=context, answers=answers, digest=None)
    if hash(tuple(answers)) == judged.digest:
        return again
    verdict = judge(context, answers)
    is_same = (verdict.status, verdict.breaks) == (judged.verdict.status, judged.verdict.breaks)
    return replace(again, verdict=verdict) if is_same else judged


def _explain_by_earlier_calls(
    connection: Connection, evidence: Sequence[Evidence], found: Sequence[Explanation | None], timeout: float
) -> list[Explanation | None]:
    """Explain the failures of an entry point that no model explains, if fresh processes answer some of them rightly."""
    lost: dict[str, list[int]] = {}
    for place, (one, explanation) in enumerate(zip(evidence, found, strict=True)):
        if explanation is None and one.cell.status == Status.FAIL:
            lost.setdefault(one.cell.subject, []).append(place)
    explained = list(found)
    for places in lost.values():
        # Some calls come after others of their own, which a fresh process makes, too.
        alone = [place for place in places if not BESIDE_OTHERS & evidence[place].judged.context.case.options.keys()]
        again = [evidence[place].judged for place in alone if evidence[place].judged.answers]
        again = again[:: max(1, len(again) - 1)][:2]
        if len(again) == 2 and all(_is_right_alone(connection, judged, timeout) for judged in again):
            for place in places:
                explained[place] = STATE_KEPT
    return explained


def _is_right_alone(connection: Connection, judged: Judged, timeout: float) -> bool:
    """Return whether a fresh process gives a right answer to a call."""
    connection.renew()
    context = judged.context
    planned = PlannedCell(context.subject, context.case, None)
    return _ask_and_judge(connection, planned, timeout, Knowledge(context.claims)).verdict.status == Status.PASS


def run_cells(
    connection: Connection,
    planned: Iterable[PlannedCell],
    timeout: float,
    knowledge: Knowledge | None = None,
    evidence: list[Evidence] | None = None,
) -> Iterator[Cell]:
    """Run cells as `run_cell` does, and yield them in their order. The adapter answers the next ones meanwhile."""
    knowledge = knowledge or Knowledge()
    waiting = enumerate(planned)
    begun: deque[_Begun] = deque()
    finished: dict[int, tuple[Cell, list[Evidence]]] = {}
    size = yielded = 0
    while True:
        while (
            len(begun) < CALLS_UNDER_WAY and size < BYTES_UNDER_WAY and (following := next(waiting, None)) is not None
        ):
            begun.append(_begin_cell(connection, *following, knowledge.probes))
            size += begun[-1].size
        if not begun:
            return
        current = begun.popleft()
        if current.first is None and (first := _begin_second_call(connection, current.planned, timeout)) is not None:
            # The adapter answers in turn. So the suite judges the cells whose calls came before the second one.
            begun.append(replace(current, first=first))
            continue
        found: list[Evidence] = []
        cell = run_cell(connection, current.planned, timeout, knowledge, found, first=current.first)
        finished[current.place] = cell, found
        size -= current.size
        while yielded in finished:
            cell, found = finished.pop(yielded)
            if evidence is not None:
                evidence += found
            yield cell
            yielded += 1


@dataclass(frozen=True)
class _Begun:
    """A cell whose calls the adapter has begun to answer."""

    #: The place of the cell in the plan.
    place: int
    planned: PlannedCell
    #: The number of bytes of the gradients.
    size: int
    #: The answer to the first call, if the second one has been made from it.
    first: Answer | None = None


def _begin_cell(connection: Connection, place: int, planned: PlannedCell, probes: AbilityProbes) -> _Begun:
    """Make the case of a cell, and let the adapter begin its calls."""
    # If a call cannot be made, its own cell says so.
    with contextlib.suppress(Exception):
        if planned.missing is not None:
            probes.begin(planned, connection)
            return _Begun(place, planned, 0)
        planned = planned.make()
        size = begin_case(connection, planned.case, planned.entry_point)
        if (following := follow_up(planned.case, None)) is not None:
            size += begin_case(connection, following, planned.entry_point)
        return _Begun(place, planned, size)
    return _Begun(place, planned, 0)


def _begin_second_call(connection: Connection, planned: PlannedCell, timeout: float) -> Answer | None:
    """Let the adapter begin the call that is made from the first answer, if there is one. Return the first answer.

    Return None if the rule does not relate answers.
    """
    if planned.missing is not None or not choose_expectation(planned.case).relates:
        return None
    with contextlib.suppress(Exception):
        first = ask_case(connection, planned.case, planned.entry_point, timeout)
        if (following := follow_up(planned.case, first)) is not None:
            begin_case(connection, following, planned.entry_point)
        return first
    return None


def run_cell(
    connection: Connection,
    planned: PlannedCell,
    timeout: float,
    knowledge: Knowledge | None = None,
    evidence: list[Evidence] | None = None,
    *,
    first: Answer | None = None,
) -> Cell:
    """Call the entry point for one cell, and judge the answer.

    Each call may take `timeout` seconds. `evidence` receives the answers of a wrong cell, for the findings. `first` is
    the answer to the first call, if there is one already.
    """
    start = time.perf_counter()
    knowledge = knowledge or Knowledge()
    planned = planned.make()
    case, entry_point = planned.case, planned.entry_point
    rule = RULES[case.rule]
    judged: Judged | None = None
    try:
        if planned.missing is None:
            judged = _judge(connection, planned, timeout, knowledge, first)
            verdict = judged.verdict
        else:
            verdict = knowledge.probes.judge(planned, connection, timeout)
    except Exception:  # noqa: BLE001 - a fault of the suite costs one cell, and the run goes on
        verdict = Verdict(Status.ERROR, f"The suite itself failed on this cell: {traceback.format_exc()}")
    cell = Cell(
        subject=entry_point.name,
        operation=case.operation,
        rule=rule.id,
        case=case.id,
        level=rule.level,
        dtype=case.dtype,
        status=verdict.status.value,
        ulp=verdict.ulp,
        detail=verdict.detail,
        expected=verdict.expected,
        observed=verdict.observed,
        quote=verdict.quote,
        url=verdict.url,
        seconds=round(time.perf_counter() - start, 6),
        theme=rule.theme,
        behaviour=verdict.behaviour,
        lacks=verdict.lacks,
        breaks=verdict.breaks,
        input=show_input(case) if verdict.status in DIFFERING else None,
    )
    if evidence is not None and judged is not None and cell.status in EXPLAINED:
        keep_evidence(evidence, judged, cell)
    return cell


def _judge(
    connection: Connection, planned: PlannedCell, timeout: float, knowledge: Knowledge, first: Answer | None
) -> Judged:
    judged = _ask_and_judge(connection, planned, timeout, knowledge, first)
    if not is_known_to_end(judged):
        return judged
    # A fresh process shows that no earlier call is to blame, and another one protects the later calls.
    connection.renew()
    try:
        return _ask_and_judge(connection, planned, timeout, knowledge)
    finally:
        connection.renew()


def _ask_and_judge(
    connection: Connection, planned: PlannedCell, timeout: float, knowledge: Knowledge, first: Answer | None = None
) -> Judged:
    answers = _ask(connection, planned.case, planned.entry_point, timeout, first)
    context = Context(planned.case, planned.entry_point, tuple(knowledge.claims))
    return judge_with_known(context, answers, knowledge.known, explain_cell)


def _ask(
    connection: Connection, case: Case, entry_point: EntryPoint, timeout: float, first: Answer | None = None
) -> list[Answer]:
    """Return the answers to a case, of which some need a second call. `first` is the first answer if it is known."""
    answers = [ask_case(connection, case, entry_point, timeout) if first is None else first]
    following = follow_up(case, answers[0])
    if following is not None:
        answers.append(ask_case(connection, following, entry_point, timeout))
    return answers


def _run_all(
    request: RunRequest, state: _RunState, waiting: deque[PlannedCell], finish: Callable[[Cell], None]
) -> None:
    """Let each job take the next cell as soon as it is free. Each job has its own connection."""
    # Equal shares would take longer: slow cells, such as those that compile, are next to each other.
    jobs = max(1, min(request.jobs, len(waiting)))
    pool = ThreadPoolExecutor(jobs, thread_name_prefix="gradclip")
    try:
        # This is inside the `try`, because a stop may come before all jobs are submitted.
        running = {pool.submit(_run_job, request, state, waiting, finish, job) for job in range(jobs)}
        while running:
            done, running = wait(running, timeout=SIGNAL_SECONDS, return_when=FIRST_EXCEPTION)
            for future in done:
                future.result()
    except BaseException:
        state.stopped.set()
        for connection in state.connections:
            connection.kill()
        raise
    finally:
        pool.shutdown(wait=True)


def _run_job(
    request: RunRequest,
    state: _RunState,
    waiting: deque[PlannedCell],
    finish: Callable[[Cell], None],
    job: int,
) -> None:
    # Each job is a thread with its own context.
    run_stopped.set(state.stopped)
    connection = state.connections[0] if job == 0 else request.connect()
    if job:
        state.connections.append(connection)
        # If the run was stopped while this host started, the host is still running.
        if state.stopped.is_set():
            connection.kill()
            return
    try:
        taken = iter(lambda: _take_next(waiting), None)
        options = (request.timeout, state.knowledge, state.evidence)
        # With several jobs, a cell that one of them had taken beforehand could wait behind a slow one.
        alone = request.jobs <= 1
        for cell in (
            run_cells(connection, taken, *options) if alone else (run_cell(connection, one, *options) for one in taken)
        ):
            # The stop may have ended the host. Then the cell says nothing about the framework.
            if state.stopped.is_set():
                return
            finish(cell)
    finally:
        if job:
            connection.close()


def _take_next(waiting: deque[PlannedCell]) -> PlannedCell | None:
    try:
        return waiting.popleft()
    except IndexError:
        return None


def make_header(adapter: str, description: Description, command: Sequence[str] = (), seed: int | None = None) -> Header:
    """Return the header of a run that begins now."""
    return Header(
        suite={"name": "gradclip-spec", "version": version("gradclip-spec")},
        adapter=adapter,
        framework={"name": description.framework, "version": description.version},
        environment={
            **description.environment,
            "suite_python": sys.version.split()[0],
            "second_oracle": name_second_oracle(),
        },
        subjects=[encode_entry_point(entry_point) for entry_point in description.subjects],
        # Records are published, so they must not show the folders of the machine that made them.
        command=[FOLDERS.sub("", word) for word in command],
        started=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        seed=seed,
    )
