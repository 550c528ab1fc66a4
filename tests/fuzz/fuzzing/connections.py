"""Call the functions that read a host's pipe, without a process."""

from __future__ import annotations

import io
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from gradclip_adapters.contract import Call
from gradclip_conformance.cases.catalogue import list_all_cases
from gradclip_conformance.cases.model import Case
from gradclip_conformance.judge.model import Answer, Description, NotSupported
from gradclip_conformance.run import host_process
from gradclip_conformance.run.messages import read_answer
from gradclip_conformance.run.plan import Selection
from gradclip_conformance.run.runner import RunRequest, run_adapter
from gradclip_reports.records import Run, read_runs

from .drawings import check_drawings
from .target import require

__all__ = ["Connected", "check_run", "list_cases_like", "read_description", "understand"]


def understand(line: str, number: int, call: Call) -> Answer:
    """Return the answer that the suite reads from a line."""
    return read_answer(line, number, call)


def read_description(line: str) -> Description:
    """Return the description that the suite reads from the first line of a host.

    Raises
    ------
    StartError
        If the line is not the greeting of a host that has started.
    """
    return host_process.HostProcess._parse_description(SimpleNamespace(_end=lambda: None), line)  # type: ignore[arg-type]


def list_cases_like(*patterns: str) -> list[Case]:
    """Return, for each pattern, the first case that matches it."""
    return [next(case for case in list_all_cases() if Selection(rules=(pattern,)).holds(case)) for pattern in patterns]


@dataclass
class Connected:
    """A connection whose answers come from a function."""

    description: Description
    answer: Callable[[Call], Answer] = field(default=lambda call: NotSupported("nothing is answered"))

    def begin(self, call: Call) -> None:
        """Do nothing."""

    def ask(self, call: Call, timeout: float) -> Answer:
        """Return an answer."""
        del timeout
        return self.answer(call)

    def close(self) -> None:
        """Do nothing."""

    def renew(self) -> None:
        """Do nothing, because there is no process to end."""

    def kill(self) -> None:
        """Do nothing."""


def check_run(connection: Any, adapter: str, selection: Selection, timeout: float = 5.0) -> Run:
    """Run, write the record, read it back, and draw it."""
    stream = io.StringIO()
    run_adapter(RunRequest(adapter, lambda: connection, selection, timeout), stream)
    path = Path("run.jsonl")
    path.write_text(stream.getvalue(), encoding="utf-8")
    (run,) = read_runs(path)
    require(len(run.cells) == run.footer.planned, "cells are missing")
    check_drawings([run])
    return run
