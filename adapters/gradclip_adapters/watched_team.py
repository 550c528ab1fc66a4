"""Keep processes that make each call together, and know at once when their collectives do not match.

Each process announces a collective before it enters it, and waits for the word to go. No process enters a collective
that another one never enters. So processes that do not match leave it, and are kept for the next call.
"""

from __future__ import annotations

import time
from collections import Counter
from typing import Any, Mapping

from . import wire
from .contract import Call, FrameworkRaised, Reply, Unsupported
from .matching import Entry, Outcome, describe_ranks, find_matching, take_replies
from .processes import PATIENCE, Team

__all__ = ["WatchedTeam"]

#: The seconds that a process gets to leave a collective that was given up.
ENDING_SECONDS = 1.0


class WatchedTeam(Team):
    """Processes that announce each collective. They enter it when all ranks of its group have announced the same.

    The module of the processes has a function `load`. They announce collectives by the function `ask`.
    """

    def ask_all(self, call: Call) -> list[Reply]:
        """Return the reply of each process. Raise also if their collectives do not match."""
        self.send_call(call)
        conversation = _Conversation(self)
        answers, entered, mismatch = conversation.hold()
        is_over = len(answers) < self.world or any(_is_end(answer) for answer in answers.values())
        if is_over or conversation.has_open_messages():
            # The processes no longer agree on what comes next.
            self.stop()
        outcomes = [_read_outcome(call, answers.get(rank), entered.get(rank)) for rank in range(self.world)]
        return take_replies(outcomes, mismatch)


class _Conversation:
    """The messages of all ranks during one call."""

    def __init__(self, team: WatchedTeam) -> None:
        self._team = team
        #: The collectives that ranks wait to enter, and those that they have entered last.
        self._waiting: dict[int, Entry] = {}
        self._entered: dict[int, Entry] = {}
        self._answers: dict[int, dict[str, Any]] = {}
        self._mismatch: str | None = None
        #: When the ranks must have left their collectives, once these were given up.
        self._ends: float | None = None
        #: How many messages have been posted, by the half of a message between two ranks.
        self._posted: Counter[str] = Counter()

    def has_open_messages(self) -> bool:
        """Return whether a rank has sent a message that no other one receives, or the reverse."""
        return any(count != self._posted[_name_other_half(half)] for half, count in list(self._posted.items()))

    def hold(self) -> tuple[dict[int, dict[str, Any]], dict[int, Entry], str | None]:
        """Return the answer of each rank, the collective that each rank was in last, and the mismatch if any."""
        while len(self._answers) < self._team.world:
            patience = self._find_patience()
            # A rank may enter one collective after another although each is given up.
            received = None if patience == 0 else self._team.receive(patience)
            if received is None:
                if self._mismatch is None:
                    self._mismatch = self._describe(self._entered)
                break
            self._note(*received)
        return self._answers, self._entered, self._mismatch

    def _find_patience(self) -> float | None:
        """Return how many seconds to wait for the next message. None stands for no limit."""
        if self._ends is not None:
            return max(0.0, self._ends - time.monotonic())
        # If a rank raises inside a collective, the others are in it for ever.
        return PATIENCE if any(answer["message"] != "reply" for answer in self._answers.values()) else None

    def _note(self, rank: int, message: dict[str, Any]) -> None:
        if message["message"] == "posts":
            self._posted[message["half"]] += 1
            self._team.send(rank, {"message": "go", "count": self._posted[message["half"]]})
        elif message["message"] != "enters":
            self._waiting.pop(rank, None)
            self._answers.setdefault(rank, message)
        elif self._mismatch is None:
            self._waiting[rank] = self._entered[rank] = _read_entry(message)
        else:
            self._team.send(rank, {"message": "give-up"})
            return
        if self._mismatch is None:
            self._let_matching_go()

    def _let_matching_go(self) -> None:
        """Let the ranks go whose collectives match. If all ranks wait or have ended, give the others up."""
        going = [rank for group in find_matching(self._waiting) for rank in group]
        going += [
            rank
            for rank, entry in self._waiting.items()
            if entry.half and self._posted[_name_other_half(entry.half)] >= entry.count
        ]
        for rank in going:
            del self._waiting[rank]
            self._team.send(rank, {"message": "go"})
        if self._waiting and not going and len(self._waiting) + len(self._answers) == self._team.world:
            self._mismatch = self._describe(self._waiting)
            self._ends = time.monotonic() + ENDING_SECONDS
            for rank in self._waiting:
                self._team.send(rank, {"message": "give-up"})

    def _describe(self, entered: Mapping[int, Entry]) -> str:
        ended = {
            rank: "returned" if answer["message"] == "reply" else f"raised {answer.get('kind', 'an error')}"
            for rank, answer in self._answers.items()
        }
        return describe_ranks({rank: entry for rank, entry in entered.items() if rank not in ended}, ended)


def _read_entry(message: Mapping[str, Any]) -> Entry:
    fields = {name: value for name, value in message.items() if name != "message"}
    return Entry(**{**fields, "group": tuple(fields["group"])})


def _name_other_half(half: str) -> str:
    """Return the name of the half that fits another, such as `receive 0>1 in 3:0` for `send 0>1 in 3:0`."""
    kind, _, rest = half.partition(" ")
    return f"{'receive' if kind == 'send' else 'send'} {rest}"


def _is_end(answer: Mapping[str, Any]) -> bool:
    """Return whether an answer says that the process has ended, or that the adapter failed in it."""
    return answer["message"] == "mistake" or answer.get("kind") == "ProcessDied"


def _read_outcome(call: Call, answer: Mapping[str, Any] | None, entry: Entry | None) -> Outcome:
    if answer is None or answer["message"] == "given-up":
        return Outcome(waits=entry)
    if answer["message"] == "reply":
        return Outcome(wire.decode_reply(answer, call))
    if answer["message"] == "unsupported":
        return Outcome(error=Unsupported(answer["text"], answer["kind"]))
    if answer["message"] == "raised":
        return Outcome(error=FrameworkRaised(answer["kind"], answer["text"]))
    return Outcome(error=RuntimeError(answer["text"]))
