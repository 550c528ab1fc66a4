"""Check a whole conversation with a host, line by line, and each line against its schema."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest

import gradclip_adapters
from gradclip_adapters import host, wire
from gradclip_adapters.contract import Array, Call, Gradient

PACKAGE = Path(gradclip_adapters.__file__).parent
MODULES = [sys.executable, "-m", "gradclip_adapters.host"]
LAUNCHER = [sys.executable, str(PACKAGE / "launch.py")]

ADAPTER = """
import sys
print("printed while it is imported")

from gradclip_adapters.contract import About, Adapter, Array, Reply, EntryPoint, Unsupported, framework_call

class Fake(Adapter):
    def about(self):
        print("printed while it is asked")
        return About("fake", "1.0", {"device": "none"})

    def subjects(self):
        return [EntryPoint("clip", "clip_by_norm", ("float32",), ("functional",))]

    def call(self, call):
        arrays = [gradient.array for gradient in call.gradients]
        if call.subject == "declines":
            raise Unsupported("no such thing")
        if call.subject == "takes all memory":
            raise MemoryError
        if call.subject == "fails":
            raise KeyError("a fault of the adapter")
        with framework_call(lambda: arrays) as seen:
            print("printed while it works")
            if call.subject == "raises":
                raise ValueError("a fault of the framework")
        return Reply(tuple(arrays), inputs=tuple(arrays), warnings=seen.warnings)
"""


class Conversation:
    """A host process and its pipes."""

    def __init__(self, command: list[str]) -> None:
        pipe = subprocess.PIPE
        # With this variable, Python would send at once what the host must send itself.
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
        self.process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=True, env=environment)

    def say(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        validate(message)
        self.process.stdin.write(wire.dumps(message) + "\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        message: dict[str, Any] = json.loads(self.process.stdout.readline())
        validate(message)
        return message

    def greet(self) -> None:
        """Send `hello`. Before the host runs foreign code, it answers with the name of the target that it loads."""
        self.say({"message": "hello", "protocol": wire.PROTOCOL})
        loading = self.hear()
        assert isinstance(self.process.args, list)
        assert (loading["message"], loading["target"]) == ("loading", self.process.args[-1])

    def end(self) -> tuple[str, str]:
        """Close the host's input, and return the rest of its standard output and standard error."""
        return self.process.communicate(timeout=600)


def validate(message: dict[str, Any]) -> None:
    schema = json.loads((PACKAGE / "schemas" / f"{message['message']}.json").read_text(encoding="utf-8"))
    jsonschema.Draft202012Validator(schema).validate(message)


def make_call(entry_point: str, number: int) -> dict[str, Any]:
    gradients = (Gradient("g", Array.of(np.array([3.0, 4.0], np.float32))),)
    return wire.encode_call(Call(entry_point, gradients, {"clip_norm": 1.0}), number)


@pytest.fixture(params=[MODULES, LAUNCHER], ids=["module", "launcher"])
def conversation(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Conversation]:
    """Start a host that runs the adapter above."""
    path = tmp_path / "fake.py"
    path.write_text(ADAPTER, encoding="utf-8")
    conversation = Conversation([*request.param, str(path)])
    yield conversation
    conversation.process.kill()
    conversation.process.communicate()


def test_whole_conversation_satisfies_the_schemas(conversation: Conversation) -> None:
    conversation.greet()
    about = conversation.hear()
    assert (about["message"], about["framework"], about["environment"]) == ("about", "fake", {"device": "none"})

    heard = []
    for number, entry_point in enumerate(["clip", "declines", "fails", "raises", "clip"], start=1):
        conversation.say(make_call(entry_point, number))
        answer = conversation.hear()
        assert answer["number"] == number
        heard.append(answer)

    assert [answer["message"] for answer in heard] == ["reply", "unsupported", "mistake", "raised", "reply"]
    asked = wire.decode_call(make_call("clip", 1))
    assert wire.decode_reply(heard[0], asked).gradients == (Array.of(np.array([3.0, 4.0], np.float32)),)
    assert heard[2]["text"].startswith("KeyError: 'a fault of the adapter'\nTraceback")
    assert (heard[3]["kind"], heard[3]["text"]) == ("ValueError", "a fault of the framework")
    assert heard[3]["inputs"] is not None
    conversation.say({"message": "bye"})
    rest, chatter = conversation.end()
    assert conversation.process.returncode == 0
    assert rest == ""
    assert chatter.count("printed while it") == 5


def test_closed_pipe_ends_the_host(conversation: Conversation) -> None:
    conversation.greet()
    conversation.hear()

    conversation.end()

    assert conversation.process.returncode == 0


def test_other_protocol_is_refused(conversation: Conversation) -> None:
    conversation.say({"message": "hello", "protocol": wire.PROTOCOL + 1})

    failed = conversation.hear()

    assert (failed["message"], failed["kind"]) == ("failed", "protocol")
    assert "install the same gradclip-spec on both sides" in failed["text"]
    conversation.end()
    assert conversation.process.returncode == 1


@pytest.mark.parametrize("greeting", ["no message", ""], ids=["other-text", "closed-pipe"])
def test_host_ends_without_a_greeting(greeting: str) -> None:
    done = subprocess.run([*MODULES, "numpy"], input=greeting, capture_output=True, text=True, check=False, timeout=600)

    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert done.returncode == 1
    # Nobody reads an answer if the pipe was closed.
    assert [message["kind"] for message in said] == (["protocol"] if greeting else [])
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("conversation", [MODULES], indirect=True, ids=["module"])
def test_host_without_memory_ends_and_says_so(conversation: Conversation) -> None:
    conversation.greet()
    conversation.hear()
    conversation.say(make_call("takes all memory", 1))

    rest, chatter = conversation.end()

    assert (conversation.process.returncode, rest) == (1, "")
    assert chatter.endswith("the host ran out of memory\n")


@pytest.mark.parametrize(
    "members", ['"message":"call","number":0', '"message":"call","number":true', '"message":"reply","number":1', ""]
)
def test_line_that_is_neither_a_call_nor_bye_is_refused(members: str) -> None:
    """Check that such a line ends the host, because an answer needs the number of a call."""
    with pytest.raises(ValueError, match=r"neither a call with a number above 0 nor `bye`"):
        host.read_request("{" + members + "}")
