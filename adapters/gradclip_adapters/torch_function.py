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

import importlib.util
from dataclasses import replace
from typing import Any, Callable, Mapping, Sequence

from .contract import About, Call, Reply, Unsupported
from .mesh import find_placement
from .mesh_function import MeshFunction
from .plain import DTYPES_OF_FUNCTIONS
from .watched_team import WatchedTeam

__all__ = ["TorchFunction"]

#: The module that the processes import.
RANKS = "gradclip_adapters.frameworks.torch_based.mesh_ranks"


class TorchFunction(MeshFunction):
    """A function on the parameters of one rank, as an adapter with one subject.

    Parameters
    ----------
    function
        The function; see the module's description.
    operation, mesh, dtypes, in_place, name, partial
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

    def _refuse_hidden_placements(self, call: Call) -> None:
        """Refuse a call whose owners a function without the parameter `placements` cannot know."""
        if "placements" in self._taken:
            return
        for gradient in call.gradients:
            if any(str(find_placement(gradient, name)).startswith(("owned", "only")) for name in self._mesh.axes):
                message = f"{self._source} takes no parameter 'placements', and only some ranks have a gradient"
                raise Unsupported(message, "interface")
