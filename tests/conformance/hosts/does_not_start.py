"""Fail to start in the way that the environment variable GRADCLIP_FAKE names. By default, a framework is missing."""

import os
import sys
import time
from dataclasses import replace

from right import Right

from gradclip_adapters.contract import About, EntryPoint, MissingDevice

WAY = os.environ.get("GRADCLIP_FAKE")


class Fake(Right):
    """Adapter that cannot describe itself."""

    def about(self) -> About:
        if WAY == "knows_nothing_of_itself":
            raise RuntimeError("no version to be found")
        if WAY == "lacks_its_device":
            raise MissingDevice("Fake finds no device 'cuda' on this machine.")
        return super().about()

    def subjects(self) -> list[EntryPoint]:
        """Return an entry point with a misspelt feature."""
        return [replace(entry_point, features=("exclude",)) for entry_point in super().subjects()]


match WAY:
    case "dies":
        os._exit(9)
    case "leaves":
        sys.exit("a licence is missing")
    case "raises":
        raise ValueError("half written")
    case "hangs":
        time.sleep(3600)
    case "defines_nothing":
        del Fake
    case "knows_nothing_of_itself" | "lacks_its_device" | "misspells_a_feature":
        pass
    case _:
        import no_such_framework  # noqa: F401
