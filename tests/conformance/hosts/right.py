"""Answer every call correctly."""

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply


class Fake(OneBadCall):
    """Answer every call correctly."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Answer every call correctly."""
        return right
