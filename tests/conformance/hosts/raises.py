"""Raises outside of the framework."""

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply


class Fake(OneBadCall):
    """Raises outside of the framework."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Raises outside of the framework."""
        message = "a fault of the adapter"
        raise KeyError(message)
