"""Run the targets in turns, each turn with its own seed, until the time is over or an example fails."""

from __future__ import annotations

import json
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase

from .guards import Hang, limit_example
from .target import Target, load_target

__all__ = ["Found", "State", "check_example", "fuzz", "run_turn", "sweep"]


@dataclass(frozen=True)
class Found:
    """The smallest failing example, and its traceback."""

    target: str
    turn: int
    example: Any
    what: str


@dataclass
class State:
    """The progress of a run. A file keeps it, so that a stopped run can continue."""

    seed: int
    turns: int = 0
    seconds: float = 0.0
    examples: Counter[str] = field(default_factory=Counter)
    finds: Counter[str] = field(default_factory=Counter)

    def save(self, path: Path) -> None:
        """Write the state to a file."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(vars(self)), encoding="utf-8")

    @classmethod
    def load(cls, path: Path) -> State:
        """Return the state that a file holds."""
        members = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{**members, "examples": Counter(members["examples"]), "finds": Counter(members["finds"])})


def check_example(target: Target, example: Any) -> None:
    """Check one example within the limits of time and memory."""
    with limit_example():
        target.check(example)


def run_turn(
    name: str, seed: int, turn: int, examples: int | None = None, *, shrink: bool = True
) -> tuple[int, Found | None]:
    """Run one turn of a target. Return the number of checked examples and the smallest failing one.

    The same name, seed and turn give the same examples. Without `shrink`, the failing example is the first one and not
    the smallest.
    """
    target = load_target(name)
    last: list[Any] = [None]
    checked = 0

    @hypothesis.seed(f"{seed} {name} {turn}")
    @hypothesis.settings(
        max_examples=examples or target.turn,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink] if shrink else [Phase.generate],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        print_blob=False,
    )
    @hypothesis.given(target.examples)
    def check(example: Any) -> None:
        nonlocal checked
        checked += 1
        last[0] = example
        check_example(target, example)

    try:
        check()
    except (Exception, SystemExit, Hang):
        return checked, Found(name, turn, last[0], traceback.format_exc(limit=-8))
    return checked, None


def sweep(name: str, examples: Iterable[Any], report: Callable[[Found], object]) -> tuple[int, int]:
    """Check given examples of a target. Return the number of examples and the number of those that failed.

    One error makes many examples fail. `report` is called once for each message.
    """
    target, seen, checked, finds = load_target(name), set[str](), 0, 0
    for example in examples:
        checked += 1
        try:
            check_example(target, example)
        except (Exception, SystemExit, Hang) as error:
            finds += 1
            if (message := f"{type(error).__name__}: {str(error)[:100]}") not in seen:
                seen.add(message)
                report(Found(name, 0, example, traceback.format_exc(limit=-8)))
    return checked, finds


def fuzz(
    names: Sequence[str], state: State, seconds: float, report: Callable[[Found | None], None], *, keep_on: bool
) -> bool:
    """Run targets in turns for a number of seconds. Stop at the first failure, unless `keep_on` is true.

    The last round is completed, so that each target has the same number of turns.

    Parameters
    ----------
    report
        Called after each turn with its result.

    Returns
    -------
    bool
        True if an example failed.
    """
    while True:
        turn, place = divmod(state.turns, len(names))
        start = time.monotonic()
        checked, found = run_turn(names[place], state.seed, turn)
        state.turns, state.seconds = state.turns + 1, state.seconds + time.monotonic() - start
        state.examples[names[place]] += checked
        if found is not None:
            state.finds[names[place]] += 1
        report(found)
        whole = state.turns % len(names) == 0
        if (found is not None and not keep_on) or (whole and state.seconds >= seconds):
            return bool(state.finds)
