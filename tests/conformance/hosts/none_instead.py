"""Return None instead of the first gradient."""

from dataclasses import replace

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply


class Fake(OneBadCall):
    """Return None instead of the first gradient."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Return None instead of the first gradient."""
        return replace(right, gradients=(None, *right.gradients[1:]))
