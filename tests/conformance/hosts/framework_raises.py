"""Report an error that the framework raised."""

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply, framework_call


class Fake(OneBadCall):
    """Report an error that the framework raised."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Report an error that the framework raised."""
        with framework_call():
            message = "not implemented on this device"
            raise NotImplementedError(message)
        return right
