"""Forget the return statement."""

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply


class Fake(OneBadCall):
    """Forget the return statement."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Forget the return statement."""
        return None  # type: ignore[return-value]
