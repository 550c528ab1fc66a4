"""Its framework raises with a text of 20 MB."""

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply, framework_call


class Fake(OneBadCall):
    """Its framework raises with a text of 20 MB."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Its framework raises with a text of 20 MB."""
        with framework_call():
            raise ValueError("x" * 20_000_000)
        return right
