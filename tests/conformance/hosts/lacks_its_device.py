"""Choose between devices, and find none but the CPU."""

from gradclip_adapters.contract import About, Adapter, MissingDevice


class OnOneDevice(Adapter):
    """An adapter that names its device, and has no entry points."""

    def __init__(self, device="cpu"):
        if device != "cpu":
            message = f"Fake 1 finds no device {device!r} on this machine."
            raise MissingDevice(message)
        self.device = device

    def about(self):
        """Return the device."""
        return About("Fake", "1", {"device": self.device})

    def subjects(self):
        """Return nothing."""
        return []
