"""Returns a list instead of a reply."""

from typing import Any

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply


class Fake(OneBadCall):
    """Returns a list instead of a reply."""

    def misbehave(self, call: Call, right: Reply) -> Any:
        """Returns a list instead of a reply."""
        return list(right.gradients)
