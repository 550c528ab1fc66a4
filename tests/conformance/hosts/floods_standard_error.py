"""Define a fake adapter that writes more to standard error than a pipe holds. This is harmless."""

import sys

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply


class Fake(OneBadCall):
    """Adapter that writes more to standard error than a pipe holds."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Write 1.6 MB to standard error, and return the right reply."""
        sys.stderr.write("a line of a log\n" * 100_000)
        return right
