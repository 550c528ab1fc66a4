"""Fuzz the calls to a host. The host answers each one, or ends and says why."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

import gradclip_adapters
from gradclip_adapters import host, wire
from gradclip_adapters.contract import Array
from gradclip_adapters.recipes import Recipe, expand
from gradclip_conformance.run.messages import read_message

from .. import same
from ..documents import make_call
from ..guards import enter_folder
from ..mutation import change, draw_changes, write_text
from ..target import Target, require


def _make_document() -> dict[str, Any]:
    """Return the message of a call in which each member of a gradient occurs."""
    call = make_call()
    first, second, missing = call.gradients
    recipe = Recipe("numbers", 7)
    made = replace(first, array=Array("float32", (2,), expand(recipe, "float32", (2,)), recipe), group=1)
    sparse = replace(second, rows=(1,), height=3, layout="strided", cotangent=second.array)
    twice = replace(second, same_as=1)
    return wire.encode_call(replace(call, gradients=(first, sparse, missing, made, twice)), 1, by_recipe=True)


DOCUMENT = _make_document()
HELLO = {"message": "hello", "protocol": wire.PROTOCOL}
ADAPTER = same.Same()
LAUNCH = Path(gradclip_adapters.__file__).with_name("launch.py")
#: The source of the adapter. A host process loads the adapter from a file with this text.
FILE = Path(same.__file__).read_text(encoding="utf-8")

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
        with enter_folder() as place:
            (place / "same.py").write_text(FILE, encoding="utf-8")
            _check_process([hello, *lines])


def _check_answer(line: str) -> dict[str, Any]:
    try:
        return read_message(line)
    except ValueError as error:
        require(False, f"the host sent something that is not a message: {error}")
        raise


def _check_process(lines: list[str]) -> None:
    """Send lines to a host and close the pipe. It must send only messages, and end by itself."""
    asked = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(
        [sys.executable, str(LAUNCH), "same.py"], input=asked.encode(), capture_output=True, timeout=60, check=False
    )
    for line in done.stdout.decode().splitlines():
        _check_answer(line)
    require(done.returncode in (0, 1), f"the host ended with exit code {done.returncode}")
    require(b"Traceback" not in done.stderr, f"the host wrote a traceback: {done.stderr[-1500:]!r}")


TARGET = Target(EXAMPLES, check)
