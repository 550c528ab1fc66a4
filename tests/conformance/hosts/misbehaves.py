"""Misbehave at a threshold of 5 in the way that the environment variable GRADCLIP_FAKE names.

Each way is a function: it gets the right reply, and returns what the adapter answers.
"""

import ctypes
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from typing import Any

import numpy as np
from right import Right

from gradclip_adapters.contract import Array, Call, Reply, Unsupported, framework_call


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


def hang(right: Reply) -> None:
    time.sleep(3600)


def hang_with_a_child(right: Reply) -> None:
    subprocess.run([sys.executable, "-c", "import time; time.sleep(3600)"], check=False)


def exit_without_a_word(right: Reply) -> None:
    os._exit(7)


def exit_with_a_reason(right: Reply) -> None:
    sys.exit("out of memory, probably")


def die_by_signal(right: Reply) -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


def raise_in_the_adapter(right: Reply) -> None:
    raise KeyError("a fault of the adapter")


def raise_in_the_framework(right: Reply) -> None:
    with framework_call():
        raise NotImplementedError("not implemented on this device")


def raise_at_length(right: Reply) -> None:
    """Raise an error with a text of 20 MB in the framework."""
    with framework_call():
        raise ValueError("x" * 20_000_000)


def allocate_gigabytes(right: Reply) -> Reply:
    with framework_call():
        np.ones(1 << 28)
    return right


def decline(right: Reply) -> None:
    raise Unsupported("no thresholds of 5 here", "kernel")


def return_nothing(right: Reply) -> None:
    """Forget the return statement."""


def return_gigabytes(right: Reply) -> Reply:
    """Return an array far larger than the input."""
    return Reply((Array("float32", (1 << 24,), bytes(1 << 26)),))


def return_one_gradient_too_few(right: Reply) -> Reply:
    return replace(right, gradients=right.gradients[:-1])


def return_integers(right: Reply) -> Reply:
    """Return integers, and declare an integer dtype."""
    values = [array.numpy().astype(np.int32) for array in right.gradients if array is not None]
    return replace(right, gradients=tuple(Array.of(one) for one in values))


def send_too_few_bytes(right: Reply) -> Reply:
    """Send fewer bytes than the shape needs."""
    first = right.gradients[0]
    assert first is not None
    return replace(right, gradients=(replace(first, data=first.data[:-1]), *right.gradients[1:]))


class Fake(Right):
    def call(self, call: Call) -> Any:
        """Return what the chosen function returns, if the threshold is 5."""
        right = super().call(call)
        return globals()[os.environ["GRADCLIP_FAKE"]](right) if call.options["clip_norm"] == 5.0 else right
