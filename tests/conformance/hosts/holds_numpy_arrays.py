"""Puts NumPy arrays into its reply, as whoever writes a first adapter does."""

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply


class Fake(OneBadCall):
    """Puts NumPy arrays into its reply."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Puts NumPy arrays into its reply."""
        return Reply(tuple(array.numpy() for array in right.gradients if array is not None))  # type: ignore[misc]
