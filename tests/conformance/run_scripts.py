"""Runs scripts, each in a process of its own that has the framework already; needs no more than Python 3.7.

usage: run_scripts.py MODULE; takes the paths of scripts, one a line, from standard input, and prints a line of JSON for
each: its path, how it ended ("passes", "fails", "raises NAME" or by what else) and what it said.
"""

import contextlib
import importlib
import io
import json
import os
import runpy
import sys


def run(path):
    """How a script ends, and what it says."""
    said = io.StringIO()
    outcome = "passes"
    try:
        with contextlib.redirect_stdout(said):
            runpy.run_path(path)
    except SystemExit as end:
        outcome = f"exits {end.code!r}" if end.code else "passes"
    except BaseException as error:
        outcome = "fails" if isinstance(error, AssertionError) else f"raises {type(error).__name__}"
        said.write(str(error))
    return {"path": path, "outcome": outcome, "said": said.getvalue()}


def main(module):
    """Fork once for each script: importing a framework takes longer than any of them."""
    importlib.import_module(module)
    for path in sys.stdin.read().splitlines():
        child = os.fork()
        if not child:
            print(json.dumps(run(path)), flush=True)
            # Without the framework's own clean-up, which a fork confuses.
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        if status:
            print(json.dumps({"path": path, "outcome": f"dies with {status}", "said": ""}), flush=True)


main(*sys.argv[1:])
