"""Run an adapter as a host process, which reads and writes messages: one JSON object in each line (see `wire`).

If the package is installed, run the host as `python -m gradclip_adapters.host TARGET`; in any other Python, run
`launch.py`. Only messages reach standard output. The host duplicates the descriptor of that stream before it imports
any framework. Everything that is printed later, also by C code, goes to standard error.
"""

from __future__ import annotations

import argparse
import gc
import os
import platform
import sys
import traceback
from pathlib import Path
from typing import IO, Any, Mapping

from . import processes, registry, wire
from .answers import answer_by, count_answer_bytes
from .contract import Adapter, BadDeclaration, Call, MissingDevice, Reply
from .limits import LINE, NAME, parse_message, shorten
from .mesh import parse_mesh
from .surroundings import answer_in_watched_surroundings

#: The errors that may stop a start, with the word for each in the message `failed`. The texts of these errors are
#: sentences for the user. Other errors show a traceback.
KINDS = {
    registry.BadTarget: "bad-target",
    registry.MissingFramework: "missing-framework",
    MissingDevice: "missing-device",
    BadDeclaration: "broken-adapter",
}


def main(arguments: list[str] | None = None) -> int:
    """Serve one adapter until the suite sends `bye` or closes the pipe."""
    options = _make_parser().parse_args(arguments)
    messages_in, messages_out = _open_private_streams()
    if _is_greeting_wrong(messages_in, messages_out):
        return 1
    # Foreign code runs next. It may hang or end this process.
    python, system = platform.python_version(), platform.platform()
    loading = {"message": "loading", "target": shorten(options.target, NAME), "python": python, "platform": system}
    _send(messages_out, loading)
    try:
        if options.memory is not None:
            _limit_memory(options.memory)
        in_place = registry.IN_PLACE[options.in_place]
        adapter = registry.resolve(
            options.target,
            options.operation,
            options.dtypes,
            in_place,
            options.name,
            options.device,
            None if options.mesh is None else parse_mesh(options.mesh),
            arrays=options.arrays,
            partial=options.partial,
        )
        about = describe(adapter)
    except Exception as error:  # noqa: BLE001 - an adapter may raise anything, and the suite must be told
        text = str(error) if isinstance(error, tuple(KINDS)) else traceback.format_exc()
        kind = KINDS.get(type(error), "broken-adapter")
        _send(messages_out, {"message": "failed", "kind": kind, "text": shorten(text)})
        return 1
    _send(messages_out, about)
    processes.announce = lambda message: _send(messages_out, {"message": message})
    # A framework keeps its objects until the process ends. The garbage collector need not examine them after each call.
    gc.freeze()
    return _serve(adapter, messages_in, messages_out)


def _make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="gradclip_adapters.host", description=__doc__)
    parser.add_argument("target", help="an adapter's name, a file, module:function or file.py:function")
    parser.add_argument("--op", dest="operation", help="for a plain function: the operation it performs")
    parser.add_argument("--dtype", dest="dtypes", action="append", help="for a plain function: a dtype to call it with")
    parser.add_argument("--in-place", choices=["yes", "no"], help="for a plain function: does it write in place?")
    parser.add_argument("--name", help="for a plain function: the name that is shown")
    parser.add_argument("--device", help='the device on which the framework works, such as "cuda"')
    parser.add_argument("--mesh", help="for a function on a mesh: the size of each axis, such as replica=2,shard=2")
    parser.add_argument("--arrays", choices=registry.ARRAYS, default="numpy", help="for such a function: its arrays")
    parser.add_argument("--partial", action="store_true", help="for such a function: it takes sums not yet reduced")
    parser.add_argument("--memory", type=int, metavar="BYTES", help="how much memory this process may allocate")
    return parser


def _serve(adapter: Adapter, messages_in: IO[bytes], messages_out: IO[str]) -> int:
    """Answer calls and return the exit code: 0 if the suite sends `bye` or closes the pipe, 1 for a wrong message."""
    for line in iter(lambda: _read_line(messages_in), ""):
        try:
            message = read_request(line)
        except ValueError as error:
            return _leave(f"the suite sent something that is not a message: {error}")
        if message is None:
            return 0
        try:
            _send(messages_out, answer(adapter, message))
        except MemoryError:
            return _leave("the host ran out of memory")
    return 0


def read_request(line: str) -> dict[str, Any] | None:
    """Return the call that a line asks for, or None for the message `bye`.

    Raises
    ------
    ValueError
        If the line is neither a call nor `bye`.
    """
    message = parse_message(line)
    if message.get("message") == "bye":
        return None
    number = message.get("number")
    if message.get("message") != "call" or type(number) is not int or number < 1:
        text = f"neither a call with a number above 0 nor `bye`: {line:.200}"
        raise ValueError(text)
    return message


def _leave(why: str) -> int:
    """Write to standard error why the host ends, and return its exit code. The suite shows this text."""
    # What the adapter printed goes to standard error, too. Without this it would follow the reason.
    sys.stdout.flush()
    sys.stderr.write(why + "\n")
    return 1


def describe(adapter: Adapter) -> dict[str, Any]:
    """Return the message `about`: the framework, its environment and its entry points."""
    return wire.encode_about(adapter.about(), adapter.subjects(), platform.python_version(), platform.platform())


def answer(adapter: Adapter, message: Mapping[str, Any]) -> dict[str, Any]:
    """Return the answer to one call: a reply, an exception of the framework, a refusal, or the adapter's mistake."""
    return answer_by(lambda call: refuse_excess(answer_in_watched_surroundings(adapter, call), call), message)


def refuse_excess(reply: Any, call: Call) -> Reply:
    """Return the reply. If its arrays take too many bytes to be sent, return a reply that says so.

    Raises
    ------
    BadReply
        If the reply breaks the contract.
    """
    wire.check_reply(reply)
    checked: Reply = reply
    arrays = (*checked.gradients, checked.norm, *(checked.inputs or ()))
    size, allowed = sum(len(array.data) for array in arrays if array is not None), count_answer_bytes(call)
    if size <= allowed:
        return checked
    text = f"returned arrays of {size:,} bytes in all; an answer to this call may have at most {allowed:,}"
    return Reply((), malformed=text)


def _limit_memory(size: int) -> None:
    """Limit the memory that this process may allocate."""
    # Other systems lack the module, or accept the limit and ignore it.
    if not sys.platform.startswith("linux"):
        message = f"--memory needs Linux in the process of the adapter; {sys.platform} cannot limit memory."
        raise registry.BadTarget(message)
    import resource

    # RLIMIT_DATA counts only memory that is written. RLIMIT_AS would also count what frameworks reserve and never use.
    resource.setrlimit(resource.RLIMIT_DATA, (size, size))


def _open_private_streams() -> tuple[IO[bytes], IO[str]]:
    """Return the pipes to the suite. Redirect standard input and output, so that nothing else uses the pipes."""
    sys.stdout.flush()
    messages_in = os.fdopen(os.dup(0), "rb")
    messages_out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nowhere, 0)
    os.dup2(2, 1)
    sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - open as long as the process lives
    return messages_in, messages_out


def _is_greeting_wrong(messages_in: IO[bytes], messages_out: IO[str]) -> bool:
    """Read the greeting. If it names another protocol, tell the suite what to install."""
    line = _read_line(messages_in)
    if not line:
        return True
    try:
        protocol = parse_message(line).get("protocol")
    except ValueError as error:
        protocol = error
    if type(protocol) is int and protocol == wire.PROTOCOL:
        return False
    both = f"This host speaks protocol {wire.PROTOCOL}, and the suite speaks {protocol!s:.200}"
    text = f"{both}: install the same gradclip-spec on both sides."
    _send(messages_out, {"message": "failed", "kind": "protocol", "text": text})
    return True


def _read_line(stream: IO[bytes]) -> str:
    """Return the next line. Cut a long line one byte beyond the limit, so that parsing refuses it."""
    return stream.readline(LINE.number + 1).decode("utf-8", "replace")


def _send(stream: IO[str], message: Mapping[str, Any]) -> None:
    stream.write(wire.dumps(message) + "\n")
    stream.flush()


if __name__ == "__main__":
    sys.exit(main())
