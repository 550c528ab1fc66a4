"""Define an adapter that returns what it gets. It is quick to import and independent of the suite."""

from __future__ import annotations

from collections.abc import Sequence

from gradclip_adapters.contract import About, Adapter, Call, EntryPoint, Reply


class Same(Adapter):
    """Return all members of a call that a reply can hold."""

    def about(self) -> About:
        return About("same", "1")

    def subjects(self) -> Sequence[EntryPoint]:
        return [EntryPoint("clip", "clip_by_norm", ("float32",))]

    def call(self, call: Call) -> Reply:
        arrays = tuple(each.array for each in call.gradients)
        names = tuple(each.name for each in call.gradients)
        return Reply(arrays, norm=arrays[0] if arrays else None, inputs=arrays, warnings=names)
