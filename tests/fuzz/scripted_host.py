"""Play a host: say what a file says, whatever is asked. `python scripted_host.py FILE` needs nothing but Python.

The file holds a list of lists of acts, the first for the greeting and one for each call, by the call's number.
"""

import json
import os
import sys
import time
from typing import Any


def act(what: str, argument: Any) -> None:
    """Do one thing."""
    if what == "say":
        os.write(1, argument.encode("utf-8", "surrogatepass"))
    elif what == "bytes":
        os.write(1, bytes.fromhex(argument))
    elif what == "mutter":
        os.write(2, argument.encode("utf-8", "surrogatepass"))
    elif what in ("flood", "flood standard error"):
        # Without an end of a line, as long as somebody reads.
        for _ in range(argument):
            os.write(1 if what == "flood" else 2, b"x" * 2**20)
    elif what == "end":
        os._exit(argument)
    elif what == "signal":
        os.kill(os.getpid(), argument)
    elif what == "close":
        os.close(argument)
    elif what == "hang":
        time.sleep(argument)


def main() -> None:
    """Greet, and answer each call."""
    with open(sys.argv[1], encoding="utf-8") as stream:
        acts: list[list[tuple[str, Any]]] = json.load(stream)
    for line in sys.stdin:
        message = json.loads(line)
        if message["message"] == "bye":
            return
        # Of a call that nobody foresaw there is nothing to say.
        number = message.get("number", 0)
        for what, argument in acts[number] if number < len(acts) else [("end", 0)]:
            act(what, argument)


main()
