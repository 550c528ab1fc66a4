"""End the process without a message."""

import os

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply


class Fake(OneBadCall):
    """End the process without a message."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """End the process without a message."""
        os._exit(7)
        return right
