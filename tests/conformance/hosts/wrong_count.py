"""Return one gradient too few."""

from dataclasses import replace

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply


class Fake(OneBadCall):
    """Return one gradient too few."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Return one gradient too few."""
        return replace(right, gradients=right.gradients[:-1])
