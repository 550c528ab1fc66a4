"""Never answers, and has started a process of its own."""

import subprocess
import sys

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply


class Fake(OneBadCall):
    """Never answers, and has started a process of its own."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Never answers, and has started a process of its own."""
        subprocess.run([sys.executable, "-c", "import time; time.sleep(3600)"], check=False)
        return right
