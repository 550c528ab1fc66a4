"""Raise outside the framework."""

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply


class Fake(OneBadCall):
    """Raise outside the framework."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Raise outside the framework."""
        message = "a fault of the adapter"
        raise KeyError(message)
