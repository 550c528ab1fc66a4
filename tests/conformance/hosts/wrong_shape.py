"""Return a gradient with a wrong shape."""

from dataclasses import replace

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Array, Call, Reply


class Fake(OneBadCall):
    """Return a gradient with a wrong shape."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Return a gradient with a wrong shape."""
        values = [array.numpy().reshape(1, -1) for array in right.gradients if array is not None]
        return replace(right, gradients=tuple(Array.of(one) for one in values))
