"""Returns far more than it was given."""

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Array, Call, Reply


class Fake(OneBadCall):
    """Returns far more than it was given."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Returns far more than it was given."""
        return Reply((Array("float32", (1 << 24,), bytes(1 << 26)),))
