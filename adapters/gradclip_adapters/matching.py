"""Match the collectives that the ranks of a mesh have entered, and say what became of each rank."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any, Iterator, Mapping, Sequence

from .contract import FrameworkRaised, Reply

#: The kind of the error if the collectives of the ranks do not match.
MISMATCH = "CollectiveMismatch"


class GivenUp(BaseException):
    """Ends the function of a rank whose collective never takes place. Functions that catch exceptions let it pass."""


@dataclass(frozen=True)
class Entry:
    """A collective that a rank has entered."""

    #: What must be equal on all ranks of the group: the collective, its operation or source, and the axes.
    kind: str
    group: tuple[int, ...]
    #: The line that entered it, such as `clip.py:14`.
    place: str
    #: What must be equal, too, unless it is empty: the dtype and the size of the value.
    form: str = ""
    #: The value's form in words.
    shown: str = ""
    #: The group's name, if several groups may have the same ranks.
    channel: str = ""
    #: For a message between two ranks, which has no group: the other half, and how many of these must have been posted.
    half: str = ""
    count: int = 0

    def __str__(self) -> str:
        """Return the collective with its value's form and the line that entered it."""
        return f"{self.kind} of {self.shown} at {self.place}" if self.shown else f"{self.kind} at {self.place}"


@dataclass(frozen=True)
class Outcome:
    """What became of one rank: a returned value, an exception, or a collective in which it would wait for ever."""

    value: Any = None
    error: BaseException | None = None
    waits: Entry | None = None


def find_matching(entered: Mapping[int, Entry]) -> Iterator[tuple[int, ...]]:
    """Yield the groups all of whose ranks have entered the same collective, with values of the same form."""
    for group, channel in dict.fromkeys((entry.group, entry.channel) for entry in entered.values()):
        entries = [entered[rank] for rank in group if rank in entered]
        if (
            not group
            or len(entries) < len(group)
            or any((one.group, one.channel) != (group, channel) for one in entries)
        ):
            continue
        kinds = {entry.kind for entry in entries}
        forms = {entry.form for entry in entries} - {""}
        if len(kinds) == 1 and len(forms) <= 1:
            yield group


def describe_ranks(entered: Mapping[int, Entry], ended: Mapping[int, str]) -> str:
    """Return a clause that says in which collective each rank is, or how it has ended."""
    states: dict[str, list[int]] = {}
    for rank in sorted([*entered, *ended]):
        state = f"in {entered[rank]}" if rank in entered else ended[rank]
        states.setdefault(state, []).append(rank)
    return "; ".join(f"{name_ranks(ranks)} {state}" for state, ranks in states.items())


def name_ranks(ranks: Sequence[int]) -> str:
    """Return a name such as "rank 0" or "ranks 0, 2 and 4 to 7"."""
    if len(ranks) == 1:
        return f"rank {ranks[0]}"
    runs = []
    for _, run in itertools.groupby(enumerate(ranks), lambda pair: pair[1] - pair[0]):
        numbers = [rank for _, rank in run]
        runs += [str(rank) for rank in numbers] if len(numbers) < 3 else [f"{numbers[0]} to {numbers[-1]}"]
    return f"ranks {', '.join(runs[:-1])} and {runs[-1]}" if len(runs) > 1 else f"ranks {runs[0]}"


def take_replies(outcomes: Sequence[Outcome], mismatch: str | None) -> list[Reply]:
    """Return the reply of each rank.

    Raises
    ------
    FrameworkRaised
        If the function raised on a rank, or if a rank waits for others.
    Unsupported
        If the function cannot make the call.
    """
    errors = {rank: outcome.error for rank, outcome in enumerate(outcomes) if outcome.error is not None}
    raised = {rank: error for rank, error in errors.items() if isinstance(error, FrameworkRaised)}
    for rank, error in errors.items():
        if rank not in raised:
            # The adapter itself failed, or refuses the call, or the user interrupts it.
            raise error
    if mismatch is not None or 0 < len(errors) < len(outcomes):
        returned = next((rank for rank in range(len(outcomes)) if rank not in errors), None)
        text = mismatch or f"rank {min(errors)} raised, and rank {returned} returned"
        raise FrameworkRaised(MISMATCH, text + _describe_first(errors))
    if raised:
        # Its inputs are those of one rank only.
        raise FrameworkRaised(raised[0].kind, raised[0].text) from raised[0]
    return [outcome.value for outcome in outcomes]


def _describe_first(errors: Mapping[int, BaseException]) -> str:
    """Return the error of the first rank that raised, as the end of a clause. It is empty if no rank raised."""
    error = errors.get(min(errors, default=0))
    return f" ({error.kind}: {error.text})" if isinstance(error, FrameworkRaised) else ""
