"""Answers with None where there was a gradient."""

from dataclasses import replace

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply


class Fake(OneBadCall):
    """Answers with None where there was a gradient."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Answers with None where there was a gradient."""
        return replace(right, gradients=(None, *right.gradients[1:]))
