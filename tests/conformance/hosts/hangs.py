"""Never answer."""

import time

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply


class Fake(OneBadCall):
    """Never answer."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Never answer."""
        time.sleep(3600)
        return right
