"""Print to standard output in every possible way, which is harmless."""

import ctypes
import os
import sys

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Call, Reply


class Fake(OneBadCall):
    """Print to standard output in every possible way, which is harmless."""

    def misbehave(self, call: Call, right: Reply) -> Reply:
        """Print to standard output in every possible way, which is harmless."""
        print("a progress bar")
        sys.__stdout__.write("a warning\n")  # type: ignore[union-attr]
        sys.stdout.flush()
        os.write(1, b"a line of C++\n")
        library = ctypes.CDLL(None)
        library.puts(b"a line of C")
        library.fflush(None)
        os.system("echo a line of a child")
        return right
