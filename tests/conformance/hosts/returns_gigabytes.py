"""Return an array far larger than the input."""

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Array, Call, Reply


class Fake(OneBadCall):
    """Return an array far larger than the input."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Return an array far larger than the input."""
        return Reply((Array("float32", (1 << 24,), bytes(1 << 26)),))
