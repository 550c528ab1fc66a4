"""Start a child process and never answer."""

import subprocess
import sys

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply


class Fake(OneBadCall):
    """Start a child process and never answer."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Start a child process and never answer."""
        subprocess.run([sys.executable, "-c", "import time; time.sleep(3600)"], check=False)
        return right
