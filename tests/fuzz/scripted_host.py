"""Play a host that follows a script, whatever the suite sends. `python scripted_host.py FILE` needs only Python.

The file holds lists of acts. The host performs the first list as its greeting, and list N as its answer to call N.
"""

import json
import os
import sys
import time
from typing import Any


def act(what: str, argument: Any) -> None:
    """Perform one act."""
    if what == "say":
        os.write(1, argument.encode("utf-8", "surrogatepass"))
    elif what == "bytes":
        os.write(1, bytes.fromhex(argument))
    elif what == "mutter":
        os.write(2, argument.encode("utf-8", "surrogatepass"))
    elif what in ("flood", "flood standard error"):
        # Write without a line break until the reader closes the pipe.
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
        # If the script has no acts for this call, end the host.
        number = message.get("number", 0)
        for what, argument in acts[number] if number < len(acts) else [("end", 0)]:
            act(what, argument)


main()
