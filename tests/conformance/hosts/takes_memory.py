"""Asks for two gigabytes in its framework."""

import numpy as np
from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply, framework_call


class Fake(OneBadCall):
    """Asks for two gigabytes in its framework."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Asks for two gigabytes in its framework."""
        with framework_call():
            np.ones(1 << 28)
        return right
