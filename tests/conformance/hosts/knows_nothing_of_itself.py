"""Fail when the host asks for the framework's name."""

from one_bad_call import OneBadCall

from gradclip_adapters.contract import About


class Fake(OneBadCall):
    """Fail when the host asks for the framework's name."""

    def about(self) -> About:
        """Raise instead of naming the framework."""
        message = "no version to be found"
        raise RuntimeError(message)
