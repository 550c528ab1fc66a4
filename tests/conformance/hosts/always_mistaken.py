"""Fail with an error of the adapter in every call."""

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply


class Fake(OneBadCall):
    """Fail with an error of the adapter in every call."""

    def call(self, call: Call) -> Reply:
        """Raise outside the framework."""
        message = "a fault of the adapter"
        raise RuntimeError(message)
