"""Make an adapter of a function that clips parameters of torch on one rank of a mesh, with real `torch.distributed`.

Each rank is a process of its own. There, the function is called as `fn(parameters, *, clip_norm)`, or with the options
of another operation (see `plain`). `parameters` is the list of this rank, as a trainer has it after the backward pass:
each has its gradient in `grad`, or None there. What the whole mesh shares is a DTensor on it. What each rank along an
axis owns is a DTensor on the mesh of the other axes, and a plain tensor if there are none.

A function may also take `mesh`, the `DeviceMesh`, and `placements` (see `mesh_function`). A function without
`placements` cannot know who owns a parameter, and is not asked those cases. The function clips in place, and returns
None or the norm. It may also return the list of the clipped gradients, or `(list, total_norm)`.

The processes tell this one each collective before they enter it. So it knows at once when they do not match.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from collections import Counter
from dataclasses import replace
from typing import Any, Callable, Mapping, Sequence

from . import wire
from .collectives import Outcome
from .contract import About, Call, FrameworkRaised, Reply, Unsupported
from .matching import Entry, describe_ranks, find_matching
from .mesh import find_placement
from .mesh_function import MeshFunction, take_replies
from .plain import DTYPES_OF_FUNCTIONS
from .processes import PATIENCE, Team

__all__ = ["TorchFunction", "WatchedTeam"]

#: The module that the processes import.
RANKS = "gradclip_adapters.frameworks.torch_based.mesh_ranks"

#: The seconds that a process gets to leave a collective that was given up.
ENDING_SECONDS = 1.0


class TorchFunction(MeshFunction):
    """A function on the parameters of one rank, as an adapter with one subject.

    Parameters
    ----------
    function
        The function; see the module's description.
    operation, mesh, dtypes, in_place, name
        As for :class:`gradclip_adapters.mesh_function.MeshFunction`.
    target
        The name by which the processes import the function, such as `module:function`.

    Raises
    ------
    TypeError
        If the function cannot be called for its operation.
    ValueError
        If there is no such operation, or no such mesh.
    ImportError
        If torch is not installed.
    """

    needed_parameters = ()

    def __init__(
        self,
        function: Callable[..., Any],
        operation: str,
        mesh: Mapping[str, int],
        dtypes: Sequence[str] = DTYPES_OF_FUNCTIONS,
        in_place: bool | None = None,
        name: str | None = None,
        target: str = "",
    ) -> None:
        if importlib.util.find_spec("torch") is None:
            message = "torch is not installed: a function on arrays of torch needs it"
            raise ImportError(message)
        super().__init__(function, operation, mesh, dtypes, in_place, name)
        settings = {"target": target, "operation": operation, "mesh": self._mesh.axes}
        self._team = WatchedTeam(RANKS, self._mesh.size, settings)

    def about(self) -> About:
        """Return the function's module and name, and the version of torch."""
        about = super().about()
        return replace(about, environment={**about.environment, "torch": importlib.metadata.version("torch")})

    @property
    def pids(self) -> list[int]:
        """The numbers of the processes."""
        return self._team.pids

    def stop(self) -> None:
        """End the processes. The next call starts new ones."""
        self._team.stop()

    def _ask_ranks(self, call: Call) -> list[Reply]:
        return take_replies(*self._team.ask_all(call))

    def _refuse_hidden_placements(self, call: Call) -> None:
        """Refuse a call whose owners a function without the parameter `placements` cannot know.

        Raises
        ------
        Unsupported
            If only some ranks have a parameter.
        """
        if "placements" in self._taken:
            return
        for gradient in call.gradients:
            if any(str(find_placement(gradient, name)).startswith(("owned", "only")) for name in self._mesh.axes):
                message = f"{self._source} takes no parameter 'placements', and only some ranks have a gradient"
                raise Unsupported(message, "interface")


class WatchedTeam(Team):
    """Processes that announce each collective. They enter it when all ranks of its group have announced the same."""

    def ask_all(self, call: Call) -> tuple[list[Outcome], str | None]:
        """Return what became of each rank, and a clause about collectives that do not match, or None if all match."""
        self.send_call(call)
        conversation = _Conversation(self)
        answers, entered, mismatch = conversation.hold()
        is_over = len(answers) < self.world or any(_is_end(answer) for answer in answers.values())
        if is_over or conversation.has_open_messages():
            # The processes no longer agree on what comes next.
            self.stop()
        outcomes = [_read_outcome(answers.get(rank), entered.get(rank)) for rank in range(self.world)]
        return outcomes, mismatch


class _Conversation:
    """The messages of all ranks during one call."""

    def __init__(self, team: WatchedTeam) -> None:
        self._team = team
        #: The collectives that ranks wait to enter, and those that they have entered last.
        self._waiting: dict[int, Entry] = {}
        self._entered: dict[int, Entry] = {}
        self._answers: dict[int, dict[str, Any]] = {}
        self._mismatch: str | None = None
        #: How many messages have been posted, by the half of a message between two ranks.
        self._posted: Counter[str] = Counter()

    def has_open_messages(self) -> bool:
        """Return whether a rank has sent a message that no other one receives, or the reverse."""
        return any(count != self._posted[_name_other_half(half)] for half, count in list(self._posted.items()))

    def hold(self) -> tuple[dict[int, dict[str, Any]], dict[int, Entry], str | None]:
        """Return the answer of each rank, the collective that each rank was in last, and the mismatch if any."""
        while len(self._answers) < self._team.world:
            received = self._team.receive(self._find_patience())
            if received is None:
                if self._mismatch is None:
                    self._mismatch = self._describe(self._entered)
                break
            self._note(*received)
        return self._answers, self._entered, self._mismatch

    def _find_patience(self) -> float | None:
        """Return how many seconds to wait for the next message. None stands for no limit."""
        if self._mismatch is not None:
            return ENDING_SECONDS
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


def _read_outcome(answer: Mapping[str, Any] | None, entry: Entry | None) -> Outcome:
    if answer is None or answer["message"] == "given-up":
        return Outcome(waits=entry)
    if answer["message"] == "reply":
        return Outcome(wire.decode_reply(answer))
    if answer["message"] == "unsupported":
        return Outcome(error=Unsupported(answer["text"], answer["kind"]))
    if answer["message"] == "raised":
        return Outcome(error=FrameworkRaised(answer["kind"], answer["text"]))
    return Outcome(error=RuntimeError(answer["text"]))
