"""Say that the framework does not support the call."""

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply, Unsupported


class Fake(OneBadCall):
    """Say that the framework does not support the call."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Say that the framework does not support the call."""
        message = "no thresholds of 5 here"
        raise Unsupported(message)
