"""Declares a feature that does not exist."""

from gradclip_adapters.contract import About, Adapter, Subject


class Fake(Adapter):
    """Declares a feature that does not exist."""

    def about(self) -> About:
        """What it is."""
        return About("fake", "1.0")

    def subjects(self) -> list[Subject]:
        """One with a misspelt word."""
        return [Subject("fake", "clip_by_norm", ("float32",), ("exclude",))]
