"""Forgets to return."""

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply


class Fake(OneBadCall):
    """Forgets to return."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Forgets to return."""
        return None  # type: ignore[return-value]
