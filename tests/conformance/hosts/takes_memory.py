"""Allocate two gigabytes in the framework."""

import numpy as np
from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply, framework_call


class Fake(OneBadCall):
    """Allocate two gigabytes in the framework."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Allocate two gigabytes in the framework."""
        with framework_call():
            np.ones(1 << 28)
        return right
