"""Raise an error with a text of 20 MB in the framework."""

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply, framework_call


class Fake(OneBadCall):
    """Raise an error with a text of 20 MB in the framework."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Raise an error with a text of 20 MB in the framework."""
        with framework_call():
            raise ValueError("x" * 20_000_000)
        return right
