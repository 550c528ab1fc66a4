"""Send fewer bytes than the shape needs."""

from dataclasses import replace

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply


class Fake(OneBadCall):
    """Send fewer bytes than the shape needs."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Send fewer bytes than the shape needs."""
        first = right.gradients[0]
        assert first is not None
        return replace(right, gradients=(replace(first, data=first.data[:-1]), *right.gradients[1:]))
