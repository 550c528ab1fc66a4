"""Sends fewer bytes than its shape says."""

from dataclasses import replace

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply


class Fake(OneBadCall):
    """Sends fewer bytes than its shape says."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Sends fewer bytes than its shape says."""
        first = right.gradients[0]
        assert first is not None
        return replace(right, gradients=(replace(first, data=first.data[:-1]), *right.gradients[1:]))
