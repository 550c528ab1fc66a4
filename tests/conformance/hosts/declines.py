"""Says that its framework cannot do it."""

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply, Unsupported


class Fake(OneBadCall):
    """Says that its framework cannot do it."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Says that its framework cannot do it."""
        message = "no thresholds of 5 here"
        raise Unsupported(message)
