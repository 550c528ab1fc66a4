"""Die of a segmentation fault."""

import os
import signal

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply


class Fake(OneBadCall):
    """Die of a segmentation fault."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Die of a segmentation fault."""
        os.kill(os.getpid(), signal.SIGSEGV)
        return right
