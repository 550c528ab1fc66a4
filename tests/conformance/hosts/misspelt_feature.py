"""Declare a feature that does not exist."""

from gradclip_adapters.contract import About, Adapter, EntryPoint


class Fake(Adapter):
    """Declare a feature that does not exist."""

    def about(self) -> About:
        """Return the name and the version."""
        return About("fake", "1.0")

    def subjects(self) -> list[EntryPoint]:
        """Return a subject with a misspelt feature."""
        return [EntryPoint("fake", "clip_by_norm", ("float32",), ("exclude",))]
