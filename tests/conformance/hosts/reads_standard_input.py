"""Read from standard input, which is empty."""

import sys

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply


class Fake(OneBadCall):
    """Read from standard input, which is empty."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Read from standard input, which is empty."""
        assert sys.stdin.read() == ""
        return right
