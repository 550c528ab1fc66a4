"""Declare a feature that does not exist."""

from gradclip_adapters.contract import About, Adapter, Subject


class Fake(Adapter):
    """Declare a feature that does not exist."""

    def about(self) -> About:
        """Return the name and the version."""
        return About("fake", "1.0")

    def subjects(self) -> list[Subject]:
        """Return a subject with a misspelt feature."""
        return [Subject("fake", "clip_by_norm", ("float32",), ("exclude",))]
