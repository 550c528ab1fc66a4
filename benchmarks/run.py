"""Compare the reference with all peers, and write a page: `python benchmarks/run.py build/results/benchmarks`.

Each peer runs in its own process, one after the other; `--python torch=PATH` names the Python that has the peer torch.
With `--quick`, each comparison is one round of a few small arrays, which shows only that the code runs.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path

from measure import Comparison, Measure
from peers import PEERS
from workloads import shrink


def main() -> int:
    """Measure all peers, or one peer in this process, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "out", type=Path, help="the path of the page, its numbers and its picture, without an extension"
    )
    parser.add_argument("peers", nargs="*", default=list(PEERS), help=", ".join(PEERS))
    parser.add_argument("--quick", action="store_true", help="one round of small arrays")
    parser.add_argument("--seconds", type=float, default=1.5, help="how long one comparison takes")
    parser.add_argument("--python", action="append", default=[], metavar="PEER=PATH")
    parser.add_argument("--inside", action="store_true", help="measure one peer in this process")
    options = parser.parse_intermixed_args()
    if options.inside:
        if options.quick:
            shrink()
        measure = Measure(options.seconds, options.quick)
        PEERS[options.peers[0]](measure)
        options.out.write_text(json.dumps([asdict(each) for each in measure.found]), encoding="utf-8")
        return 0
    pythons = dict(each.split("=", 1) for each in options.python)
    found: list[Comparison] = []
    for peer in options.peers:
        with tempfile.TemporaryDirectory() as folder:
            result = Path(folder, "result.json")
            more = ["--quick"] if options.quick else []
            command = [pythons.get(peer, sys.executable), __file__, str(result), peer, "--inside", *more]
            subprocess.run([*command, "--seconds", str(options.seconds)], check=True)
            found += [Comparison(**row) for row in json.loads(result.read_text(encoding="utf-8"))]
    # `table` needs matplotlib, which the environments of peers may lack.
    import table

    return table.publish(found, options.out)


if __name__ == "__main__":
    sys.exit(main())
