"""Does nothing wrong."""

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply


class Fake(OneBadCall):
    """Does nothing wrong."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Does nothing wrong."""
        return right
