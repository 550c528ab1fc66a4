"""Misbehave at a threshold of 5 in the way that the environment variable GRADCLIP_FAKE names.

Each way is a function: it gets the right reply, and returns what the adapter answers.
"""

import ctypes
import os
import signal
import sys
from dataclasses import replace
from typing import Any

from one_bad_call import OneBadCall

from gradclip_adapters.contract import Array, Call, Reply, framework_call


def print_in_every_way(right: Reply) -> Reply:
    """Print to standard output, which is harmless, from Python, C and a child."""
    print("a progress bar")
    sys.__stdout__.write("a warning\n")  # type: ignore[union-attr]
    sys.stdout.flush()
    os.write(1, b"a line of C++\n")
    library = ctypes.CDLL(None)
    library.puts(b"a line of C")
    library.fflush(None)
    os.system("echo a line of a child")
    return right


def flood_standard_error(right: Reply) -> Reply:
    """Write 1.6 MB to standard error, more than a pipe holds. This is harmless."""
    sys.stderr.write("a line of a log\n" * 100_000)
    return right


def read_standard_input(right: Reply) -> Reply:
    """Read from standard input, which is empty."""
    assert sys.stdin.read() == ""
    return right


def die_by_signal(right: Reply) -> Reply:
    """Die of a segmentation fault."""
    os.kill(os.getpid(), signal.SIGSEGV)
    return right


def leave(right: Reply) -> Reply:
    """Exit with an explanation on standard error."""
    sys.exit("out of memory, probably")


def return_nothing(right: Reply) -> None:
    """Forget the return statement."""


def return_gigabytes(right: Reply) -> Reply:
    """Return an array far larger than the input."""
    return Reply((Array("float32", (1 << 24,), bytes(1 << 26)),))


def raise_at_length(right: Reply) -> Reply:
    """Raise an error with a text of 20 MB in the framework."""
    with framework_call():
        raise ValueError("x" * 20_000_000)
    return right


def raise_in_the_framework(right: Reply) -> Reply:
    """Report an error that the framework raised."""
    with framework_call():
        message = "not implemented on this device"
        raise NotImplementedError(message)
    return right


def send_too_few_bytes(right: Reply) -> Reply:
    """Send fewer bytes than the shape needs."""
    first = right.gradients[0]
    assert first is not None
    return replace(right, gradients=(replace(first, data=first.data[:-1]), *right.gradients[1:]))


class Fake(OneBadCall):
    """Adapter that misbehaves in the chosen way."""

    def misbehave(self, call: Call, right: Reply) -> Any:
        """Return what the chosen function returns."""
        return globals()[os.environ["GRADCLIP_FAKE"]](right)
