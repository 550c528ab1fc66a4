"""Has a fault in each call."""

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply


class Fake(OneBadCall):
    """Has a fault in each call."""

    def call(self, call: Call) -> Reply:
        """Fails."""
        message = "a fault of the adapter"
        raise RuntimeError(message)
