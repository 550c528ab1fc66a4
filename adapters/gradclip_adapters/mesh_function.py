"""Make an adapter of a function that clips its part of the gradients on one rank of a mesh.

The function is called once for each rank, as `fn(grads, *, clip_norm, placements, mesh)` or with the options of another
operation (see `plain`). `grads` is the list of this rank: NumPy arrays, or None for a parameter without a gradient.
`placements` holds a dict for each of them: for the name of each axis of the mesh "replicated", "owned", or the number
of the axis of the array along which it is sharded. Functions that take partial gradients also see "partial": the ranks
have the addends of a gradient, and return those of its clip. `mesh` is a
:class:`gradclip_adapters.collectives.RankMesh`. The ranks run in threads of this process, one at a time.
"""

from __future__ import annotations

import contextlib
import zlib
from dataclasses import replace
from typing import Any, Callable, Iterator, Mapping, Sequence

from . import wire
from .arrays import refuse_unlisted
from .collectives import Outcome, RankMesh, simulate
from .contract import Call, FrameworkRaised, Gradient, Reply, Unsupported, framework_call, together
from .matching import MISMATCH
from .mesh import Mesh, cut_call, find_placement, get_mesh, join_replies
from .plain import DTYPES_OF_FUNCTIONS, PlainFunction

__all__ = ["FEATURES_ON_A_MESH", "MeshFunction", "show_placements", "take_replies"]

#: The features of every function on a mesh.
FEATURES_ON_A_MESH = ("distributed", "none_grads")

#: The features that a function on a mesh may have. The suite asks for no others there.
POSSIBLE = {
    *FEATURES_ON_A_MESH,
    "error_if_nonfinite",
    "excludes",
    "functional",
    "in_place",
    "may_return_norm",
    "min_max",
    "norm_type",
    "optional_flags",
    "partial",
    "requires_min",
}


class MeshFunction(PlainFunction):
    """A function on the gradients of one rank, as an adapter with one subject.

    Parameters
    ----------
    function
        The function; see the module's description.
    operation
        One of `gradclip_adapters.contract.OPERATIONS`, such as `clip_by_global_norm`.
    mesh
        The size of each axis of the mesh by its name; at most 8 ranks in all.
    dtypes, in_place, name
        As for :class:`gradclip_adapters.plain.PlainFunction`.
    partial
        Whether the function takes gradients that are not yet summed over an axis.

    Raises
    ------
    TypeError
        If the function cannot be called for its operation, or takes no `mesh`.
    ValueError
        If there is no such operation, or no such mesh.
    """

    #: The parameters that the function must take.
    needed_parameters: tuple[str, ...] = ("mesh",)

    def __init__(
        self,
        function: Callable[..., Any],
        operation: str,
        mesh: Mapping[str, int],
        dtypes: Sequence[str] = DTYPES_OF_FUNCTIONS,
        in_place: bool | None = None,
        name: str | None = None,
        *,
        partial: bool = False,
    ) -> None:
        self._mesh = Mesh(mesh)
        super().__init__(
            function, operation, dtypes, in_place, name, more=("mesh", "placements"), needed=self.needed_parameters
        )
        features = {*self._subject.features, *FEATURES_ON_A_MESH, *(["partial"] if partial else [])} & POSSIBLE
        self._subject = replace(self._subject, features=tuple(sorted(features)), mesh=self._mesh.axes)

    def call(self, call: Call) -> Reply:
        """Call the function on each rank, and join the answers."""
        self._refuse_missing_parameters(call)
        refuse_unlisted(call, self._subject)
        self._refuse_hidden_placements(call)
        return join_replies(call, self._ask_ranks(call))

    def _ask_ranks(self, call: Call) -> list[Reply]:
        mesh = get_mesh(call)

        def answer_on(rank: int) -> Callable[[RankMesh], Reply]:
            part = cut_call(call, rank)
            shown = [show_placements(gradient, mesh) for gradient in part.gradients]
            return lambda view: self._answer_alone(part, {"mesh": view, "placements": shown})

        seed = zlib.crc32(wire.dumps(wire.encode_call(call, 1)).encode())
        with framework_call() as seen:
            outcomes, mismatch = simulate(mesh, [answer_on(rank) for rank in range(mesh.size)], seed)
        first, *others = take_replies(outcomes, mismatch)
        # The ranks share the filters of warnings.
        return [replace(first, warnings=seen.warnings), *others]

    def _answer_alone(self, call: Call, more: Mapping[str, Any]) -> Reply:
        """Answer on one rank, in its thread. The thread of the whole call records the warnings."""
        together.manager = _record_nothing()
        return self._answer(call, more)

    def _refuse_hidden_placements(self, call: Call) -> None:
        """Refuse a call whose placements a function without the parameter `placements` cannot know."""
        if "placements" in self._taken:
            return
        for gradient in call.gradients:
            for placement in (find_placement(gradient, name) for name in self._mesh.axes):
                if placement in ("replicated", "partial"):
                    message = f"{self._source} takes no parameter 'placements', and a gradient is {placement}"
                    raise Unsupported(message, "interface")


@contextlib.contextmanager
def _record_nothing() -> Iterator[list[Any]]:
    yield []


def show_placements(gradient: Gradient, mesh: Mesh) -> dict[str, Any]:
    """Return the placement on each axis, in the words of the parameter `placements`."""
    placements = {name: find_placement(gradient, name) for name in mesh.axes}
    owned = {name for name, placement in placements.items() if str(placement).startswith(("owned", "only"))}
    return {name: "owned" if name in owned else placement for name, placement in placements.items()}


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
