"""Fuzz everything that comes from outside: `python tests/fuzz/run.py --minutes 60 --seed 7`.

Targets take turns. The same seed gives the same turns; the time limit decides how many there are. Exit code 1 means
that an example failed. The smallest failing example is written to a file. Move this file to `tests/fuzz/found/TARGET/`,
under a name that describes the failure: then it is a test.

The targets change valid documents. `--sweep` checks every change of one value, instead of drawing changes by chance. It
takes an hour.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from fuzzing.driver import Found, State, fuzz, run_turn, sweep  # noqa: E402 - needs the folder on the path
from fuzzing.sweep import SWEEPS  # noqa: E402
from fuzzing.target import NAMES  # noqa: E402

KEPT = HERE.parents[1] / ".hypothesis" / "fuzz"


def main() -> int:
    """Run the targets, print a summary of each, and return the exit code."""
    options = parse_options()
    names = options.target or list(NAMES)
    if options.turn is not None:
        _, found = run_turn(names[0], options.seed, options.turn)
        return report(found)
    if options.sweep:
        return sweep_targets(options.target or list(SWEEPS))
    path = KEPT / "state.json"
    state = State.load(path) if options.resume else State(options.seed)
    print(f"seed {state.seed}, {options.minutes:g} minutes: {', '.join(names)}", flush=True)

    def tell(found: Found | None) -> None:
        state.save(path)
        report(found)

    try:
        fuzz(names, state, 60 * options.minutes, tell, keep_on=options.keep_on)
    except KeyboardInterrupt:
        print(f"Stopped after {state.seconds:.0f} s; --resume goes on.")
    print(f"\nseed {state.seed}, {state.turns} turns, {state.seconds:.0f} s")
    for name in names:
        print(f"  {name:16} {state.examples[name]:8} examples  {state.finds[name]:3} finds")
    return 1 if state.finds else 0


def parse_options() -> argparse.Namespace:
    """Return the options of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=1.0, help="the total time (1)")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(10**9), help="the seed of the examples")
    parser.add_argument("--target", action="append", choices=NAMES, help="only this target; may be repeated")
    parser.add_argument("--turn", type=int, help="only this turn of the first named target, as printed for a failure")
    parser.add_argument("--sweep", action="store_true", help="check every change of one value of the documents instead")
    parser.add_argument("--resume", action="store_true", help="continue the run that was stopped")
    parser.add_argument("--keep-on", action="store_true", help="do not stop at the first failure")
    return parser.parse_args()


def sweep_targets(names: Sequence[str]) -> int:
    """Check every single change of the documents of targets, and return the exit code."""
    if unknown := set(names) - set(SWEEPS):
        print(f"No documents to sweep: {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    numbers = {name: sweep(name, SWEEPS[name](), report) for name in names}
    for name, (checked, finds) in numbers.items():
        print(f"  {name:16} {checked:8} examples  {finds:3} finds")
    return 1 if any(finds for _, finds in numbers.values()) else 0


def report(found: Found | None) -> int:
    """Print a failure, write its example to a file, and return the exit code."""
    if found is None:
        return 0
    what = found.what.strip().splitlines()
    text = json.dumps({"what": _find_message(what), "example": found.example}, indent=1)
    path = KEPT / found.target / f"{hashlib.sha256(text.encode()).hexdigest()[:12]}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text + "\n", encoding="utf-8")
    print(f"\nFind of {found.target}, turn {found.turn}:\n{found.what}", flush=True)
    print(f"Smallest example ({path}):\n{json.dumps(found.example)[:4000]}", flush=True)
    return 1


def _find_message(lines: list[str]) -> str:
    """Return the line of a traceback that names the exception, without the notes below it."""
    raised = [line for line in lines if not line.startswith((" ", "Traceback", "Failing test case", ")"))]
    return raised[0][:300] if raised else lines[-1][:300]


if __name__ == "__main__":
    sys.exit(main())
