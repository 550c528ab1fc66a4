"""Runs scripts, each in a process of its own that has the framework already; needs no more than Python 3.7.

usage: run_scripts.py MODULE SCRIPT...; prints a line for each script: "fails", "passes", or what else became of it.
"""

import importlib
import os
import runpy
import sys
import traceback


def run(path):
    """How a script ends."""
    try:
        runpy.run_path(path)
    except AssertionError:
        return 1
    except SystemExit as end:
        return 0 if not end.code else 2
    except BaseException:
        traceback.print_exc()
        return 2
    return 0


def main(module, *paths):
    """Fork once for each script: importing a framework takes longer than any of them."""
    importlib.import_module(module)
    for path in paths:
        child = os.fork()
        if not child:
            # Without the framework's own clean-up, which a fork confuses.
            code = run(path)
            sys.stderr.flush()
            os._exit(code)
        status = os.waitpid(child, 0)[1]
        print({0: "passes", 256: "fails"}.get(status, f"ends with {status}"), path, flush=True)


main(*sys.argv[1:])
