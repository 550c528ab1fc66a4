"""Adapt functions that clip the gradients of parameters, also on engines with meshes of two axes."""

from __future__ import annotations

from ...contract import Call, Reply
from .parameters import ParametersAdapter

__all__ = ["EnginesAdapter"]


class EnginesAdapter(ParametersAdapter):
    """Adapter for functions that clip in one process, and on meshes (see `engine_meshes`)."""

    def call(self, call: Call) -> Reply:
        """Return the answer of the entry point that the call names. Processes answer for one with a mesh."""
        entry = self.entry_points[call.subject]
        if entry.mesh is None:
            return super().call(call)
        # Older torch lacks modules that this one imports.
        from .mesh_engines import answer_on_mesh

        return answer_on_mesh(call, entry.clip)
