"""Run scripts, each in its own process that already has the framework imported.

usage: run_scripts.py MODULE. It reads the paths of scripts from standard input, one in each line. For each script it
prints a line of JSON: its path, how it ended ("passes", "fails", "raises NAME" and so on) and what it printed.
"""

import contextlib
import importlib
import io
import json
import os
import runpy
import sys


class Outcome:
    """Record how a script ends, and suppress its exception."""

    text = "passes"
    message = ""

    def __enter__(self):
        """Return this object."""
        return self

    def __exit__(self, kind, error, traceback):
        """Describe what was raised."""
        if isinstance(error, SystemExit):
            self.text = f"exits {error.code!r}" if error.code else "passes"
        elif error is not None:
            self.text = "fails" if isinstance(error, AssertionError) else f"raises {type(error).__name__}"
            self.message = str(error)
        return True


def run(path):
    """Run a script, and return how it ended and what it printed."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), Outcome() as outcome:
        runpy.run_path(path)
    return {"path": path, "outcome": outcome.text, "said": said.getvalue() + outcome.message}


def main(module):
    """Fork once for each script, because importing a framework takes longer than running a script."""
    importlib.import_module(module)
    for path in sys.stdin.read().splitlines():
        child = os.fork()
        if not child:
            print(json.dumps(run(path)), flush=True)
            # `_exit` skips the framework's own clean-up, which does not work after a fork.
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        if status:
            print(json.dumps({"path": path, "outcome": f"dies with {status}", "said": ""}), flush=True)


main(*sys.argv[1:])
