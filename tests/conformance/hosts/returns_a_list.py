"""Return a list instead of a reply."""

from typing import Any

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply


class Fake(OneBadCall):
    """Return a list instead of a reply."""

    def misbehave(self, call: Call, right: Reply) -> Any:
        """Return a list instead of a reply."""
        return list(right.gradients)
