"""Fuzz the calls to a host: the host answers each one, or ends and says why."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import gradclip_adapters
from gradclip_adapters import host, wire
from gradclip_adapters.contract import OPERATIONS
from gradclip_conformance.run.messages import read_message

from ..documents import Halving, make_call
from ..guards import folder
from ..mutation import change, draw_changes, write_text
from ..target import Target, require

DOCUMENT = wire.encode_call(make_call(), 1)
HELLO = {"message": "hello", "protocol": wire.PROTOCOL}
ADAPTER = Halving([("clip", operation) for operation in OPERATIONS[2:]])
LAUNCH = Path(gradclip_adapters.__file__).with_name("launch.py")
#: The adapter of the process: quick to import and independent of the suite.
FILE = """
from gradclip_adapters.contract import About, Adapter, Reply, Subject

class Same(Adapter):
    def about(self):
        return About("same", "1")

    def subjects(self):
        return [Subject("clip", "clip_by_norm", ("float32",))]

    def call(self, call):
        return Reply(tuple(each.array for each in call.gradients))
"""

EXAMPLES = st.fixed_dictionaries(
    {
        "calls": st.lists(draw_changes(DOCUMENT), min_size=1, max_size=3),
        #: Few examples start a process, because that takes time.
        "process": st.sampled_from((False,) * 15 + (True,)).flatmap(
            lambda drawn: st.just([]) | draw_changes(HELLO, largest=1) if drawn else st.none()
        ),
    }
)


def check(example: Any) -> None:
    """Answer changed calls, in this process and sometimes in a host."""
    lines = [write_text(change(DOCUMENT, wanted)) for wanted in example["calls"]]
    for line in lines:
        try:
            message = host.read_request(line)
        except ValueError as error:
            require(str(error), "a line is refused without a reason")
            continue
        if message is not None:
            _check_answer(wire.dumps(host.answer(ADAPTER, message)))
    if example["process"] is not None:
        hello = write_text(change(HELLO, example["process"]))
        with folder() as place:
            (place / "same.py").write_text(FILE, encoding="utf-8")
            _check_process([hello, *lines])


def _check_answer(line: str) -> dict[str, Any]:
    try:
        return read_message(line)
    except ValueError as error:
        require(False, f"the host sent something that is not a message: {error}")
        raise


def _check_process(lines: list[str]) -> None:
    """Send lines to a host and close the pipe; it must send only messages, and end by itself."""
    asked = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(
        [sys.executable, str(LAUNCH), "same.py"], input=asked.encode(), capture_output=True, timeout=60, check=False
    )
    for line in done.stdout.decode().splitlines():
        _check_answer(line)
    require(done.returncode in (0, 1), f"the host ended with exit code {done.returncode}")
    require(b"Traceback" not in done.stderr, f"the host wrote a traceback: {done.stderr[-1500:]!r}")


TARGET = Target(EXAMPLES, check, turn=100)
