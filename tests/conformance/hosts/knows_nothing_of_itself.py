"""Fails when it is asked what it is."""

from one_bad_call import OneBadCall

from gradclip_adapters.contract import About


class Fake(OneBadCall):
    """Fails when it is asked what it is."""

    def about(self) -> About:
        """Nothing."""
        message = "no version to be found"
        raise RuntimeError(message)
