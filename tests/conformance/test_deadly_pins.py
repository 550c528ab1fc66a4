"""Check pins of calls that end their process: such a pin excuses the crash, and the call gets a separate process."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from gradclip_adapters.contract import Call, Subject
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.judge.model import Answer, Description, Died, Raised, TimedOut
from gradclip_conformance.known.pins import Deviation
from gradclip_conformance.run.plan import Selection, plan_cells
from gradclip_conformance.run.runner import run_cell
from gradclip_reports.records import Cell

SUBJECT = Subject("fake.clip", "clip_by_norm", ("float32",))
CASE = "norm.scaled-above/three-four-five/float32"


@dataclass
class Scripted:
    """A connection that gives one answer, and records what happens to its process."""

    answer: Answer
    events: list[str] = field(default_factory=list)
    description: Description = field(default=Description("fake", "1.0", {}, (SUBJECT,)))

    def ask(self, call: Call, timeout: float) -> Answer:
        """Return the answer."""
        self.events.append("asked")
        return self.answer

    def renew(self) -> None:
        """Record the request for a new process."""
        self.events.append("renewed")

    def close(self) -> None:
        """Do nothing."""

    def kill(self) -> None:
        """Do nothing."""


def make_pin(observed: str) -> Deviation:
    return Deviation(("fake.clip",), (CASE,), observed, "It reads foreign memory.", "none found, today", "1", "1")


def ask(answer: Answer, *pins: Deviation) -> tuple[Cell, list[str]]:
    """Return the cell of one call, and what happened to the process."""
    (planned,) = plan_cells([SUBJECT], list_all_cases(), Selection(cases=(CASE,)))
    connection = Scripted(answer)
    return run_cell(connection, planned, 1.0, known=pins), connection.events


DIED, SLOW, RAISED = Died("ended by signal SIGSEGV"), TimedOut(1.0), Raised("OSError", "dimension 97")


@pytest.mark.parametrize(
    ("answer", "observed", "status"),
    [
        (DIED, "crash", "deviation"),
        (DIED, "raises:OSError | crash", "deviation"),
        (RAISED, "raises:OSError | crash", "deviation"),
        (SLOW, "timeout", "deviation"),
        (SLOW, "crash", "timeout"),
        (DIED, "raises:OSError", "crash"),
        (RAISED, "crash", "changed"),
    ],
)
def test_a_pin_excuses_the_answers_that_it_names(answer: Answer, observed: str, status: str) -> None:
    cell, _ = ask(answer, make_pin(observed))

    assert cell.status == status


def test_deadly_call_gets_a_separate_process() -> None:
    assert ask(DIED, make_pin("raises:OSError | crash"))[1] == ["renewed", "asked", "renewed"]


def test_other_calls_share_their_process() -> None:
    assert ask(RAISED, make_pin("raises:OSError"))[1] == ["asked"]
