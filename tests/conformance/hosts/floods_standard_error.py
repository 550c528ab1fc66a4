"""Write more to standard error than a pipe holds, which is harmless."""

import sys

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply


class Fake(OneBadCall):
    """Write more to standard error than a pipe holds, which is harmless."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Write more to standard error than a pipe holds, which is harmless."""
        sys.stderr.write("a line of a log\n" * 100_000)
        return right
