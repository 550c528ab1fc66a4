"""Adapt TensorFlow.js: pass each call to a host on Node, `tensorflow_js.js`, which needs neither Python nor NumPy."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from ..client import Client, HostDied
from ..contract import Call, Reply


class TensorFlowJSAdapter(Client):
    """Adapter for `tf.clipByValue`. It computes nothing and converts nothing: the host on Node does."""

    def __init__(self) -> None:
        """Start the host."""
        node, packages = shutil.which("node"), Path(sys.prefix, "node_modules")
        if node is None:
            message = "there is no program node"
            raise ImportError(message)
        if not (packages / "@tensorflow" / "tfjs").is_dir():
            message = f"there is no @tensorflow/tfjs in {packages}"
            raise ImportError(message)
        # Node looks for packages beside the script that asks for them, and then there.
        os.environ["NODE_PATH"] = str(packages)
        super().__init__([node, str(Path(__file__).with_suffix(".js"))])

    def call(self, call: Call) -> Reply:
        """Return the answer of the host on Node."""
        try:
            return super().call(call)
        except (HostDied, BrokenPipeError) as death:
            # What Node dies of is an answer, not a fault of the adapter. So this process ends, too.
            sys.exit(f"Node: {death}")
