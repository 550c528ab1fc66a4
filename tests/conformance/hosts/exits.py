"""Ends its process without a word."""

import os

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply


class Fake(OneBadCall):
    """Ends its process without a word."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Ends its process without a word."""
        os._exit(7)
        return right
