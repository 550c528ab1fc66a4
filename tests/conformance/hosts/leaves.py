"""Exit with an explanation on standard error."""

import sys

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply


class Fake(OneBadCall):
    """Exit with an explanation on standard error."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Exit with an explanation on standard error."""
        sys.exit("out of memory, probably")
