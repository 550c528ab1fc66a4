"""Answers with another shape."""

from dataclasses import replace

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Array, Call, Reply


class Fake(OneBadCall):
    """Answers with another shape."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Answers with another shape."""
        values = [array.numpy().reshape(1, -1) for array in right.gradients if array is not None]
        return replace(right, gradients=tuple(Array.of(one) for one in values))
