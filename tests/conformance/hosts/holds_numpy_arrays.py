"""Put NumPy arrays into the reply, a common mistake in a first adapter."""

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply


class Fake(OneBadCall):
    """Put NumPy arrays into the reply."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Put NumPy arrays into the reply."""
        return Reply(tuple(array.numpy() for array in right.gradients if array is not None))  # type: ignore[misc]
