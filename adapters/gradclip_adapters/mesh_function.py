"""Make an adapter of a function that clips its part of the gradients on one rank of a mesh.

The function is called once for each rank, as `fn(grads, *, clip_norm, placements, mesh)` or with the options of another
operation (see `plain`). `grads` is the list of this rank: NumPy arrays, or None for a parameter without a gradient.
`placements` holds a dict for each of them: for the name of each axis of the mesh "replicated", "owned", or the number
of the axis of the array along which it is sharded. Functions that take partial gradients also see "partial": the ranks
have the addends of a gradient, and return those of its clip. `mesh` is a
:class:`gradclip_adapters.collectives.RankMesh`. The ranks run in threads of this process, one at a time.

A function on parameters of torch runs with real `torch.distributed`, and each rank is a process of its own. There, the
function is called as `fn(parameters, *, clip_norm)`. `parameters` is the list of this rank, as a trainer has it after
the backward pass: each has its gradient in `grad`, or None there. What the whole mesh shares is a DTensor on it. What
each rank along an axis owns is a DTensor on the mesh of the other axes, and a plain tensor if there are none.

Such a function may also take `mesh`, here the `DeviceMesh`, and `placements`. Without `placements` it cannot know who
owns a parameter, and is not asked those cases. It clips in place, and returns None or the norm. It may also return the
list of the clipped gradients, or `(list, total_norm)`. The processes tell this one each collective before they enter
it. So it knows at once when they do not match.
"""

from __future__ import annotations

import contextlib
import importlib.util
import zlib
from dataclasses import replace
from typing import Any, Callable, Mapping, Sequence

from . import wire
from .arrays import refuse_unlisted
from .collectives import RankMesh, simulate
from .contract import About, Call, Gradient, Placement, Reply, Unsupported, framework_call, together
from .matching import take_replies
from .mesh import Mesh, cut_call, find_placement, get_mesh, join_replies
from .plain import DTYPES_OF_FUNCTIONS, PlainFunction
from .watched_team import WatchedTeam

__all__ = ["FEATURES_ON_A_MESH", "MeshFunction", "TorchFunction", "show_placements"]

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


#: The module that the processes import.
RANKS = "gradclip_adapters.frameworks.torch_based.mesh_ranks"


class MeshFunction(PlainFunction):
    """A function on the gradients of one rank, as an adapter with one entry point.

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
        features = {*self._entry_point.features, *FEATURES_ON_A_MESH, *(["partial"] if partial else [])} & POSSIBLE
        self._entry_point = replace(self._entry_point, features=tuple(sorted(features)), mesh=self._mesh.axes)

    def call(self, call: Call) -> Reply:
        """Call the function on each rank, and join the answers."""
        self._refuse_missing_parameters(call)
        refuse_unlisted(call, self._entry_point)
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
        together.manager = contextlib.nullcontext([])
        return self._answer(call, more)

    def _refuse_hidden_placements(self, call: Call) -> None:
        """Refuse a call whose placements a function without the parameter `placements` cannot know."""
        if "placements" in self._taken:
            return
        for gradient in call.gradients:
            for placement in (find_placement(gradient, name) for name in self._mesh.axes):
                hidden = self._describe_hidden(placement)
                if hidden:
                    message = f"{self._source} takes no parameter 'placements', and {hidden}"
                    raise Unsupported(message, "interface")

    def _describe_hidden(self, placement: Placement) -> str:
        """Return a clause about a placement that the arrays do not show, or an empty text for any other."""
        return f"a gradient is {placement}" if placement in ("replicated", "partial") else ""


class TorchFunction(MeshFunction):
    """A function on the parameters of one rank, as an adapter with one entry point.

    Parameters
    ----------
    function
        The function; see the module's description.
    operation, mesh, dtypes, in_place, name, partial
        As for :class:`MeshFunction`.
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
        *,
        partial: bool = False,
    ) -> None:
        if importlib.util.find_spec("torch") is None:
            message = "torch is not installed: a function on arrays of torch needs it"
            raise ImportError(message)
        super().__init__(function, operation, mesh, dtypes, in_place, name, partial=partial)
        settings = {"target": target, "operation": operation, "mesh": self._mesh.axes}
        self._team = WatchedTeam(RANKS, self._mesh.size, settings)

    def about(self) -> About:
        """Return the function's module and name, and the version of torch."""
        # Python 3.7, which may import this module, has no such module.
        import importlib.metadata

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
        return self._team.ask_all(call)

    def _describe_hidden(self, placement: Placement) -> str:
        return "only some ranks have a gradient" if _is_owned(placement) else ""


def _is_owned(placement: Placement) -> bool:
    return str(placement).startswith(("owned", "only"))


def show_placements(gradient: Gradient, mesh: Mesh) -> dict[str, Any]:
    """Return the placement on each axis, in the words of the parameter `placements`."""
    placements = {name: find_placement(gradient, name) for name in mesh.axes}
    return {name: "owned" if _is_owned(placement) else placement for name, placement in placements.items()}
