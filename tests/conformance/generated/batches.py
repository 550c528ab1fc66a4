"""Judge generated mutants in batches, and combine the outcomes for the score."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .judging import FAULTY, judge_mutant
from .mutants import draw_mutants, find_witness

__all__ = ["BATCHES", "LEAST_CAUGHT", "SIZE", "judge_batch", "list_faults", "score_batches", "write_lines"]

#: The number of mutants in a batch, and the number of batches that `nox -s mutation -- --all` runs.
SIZE, BATCHES = 50, 120
#: The share of the proven mutants that must be caught.
LEAST_CAUGHT = 0.98

#: The possible outcomes for a drawn mutant, with their descriptions.
STATES = {
    "caught": "proven wrong and caught",
    "survives": "proven wrong and not caught",
    "equivalent": "not proven wrong: right on every drawn input",
    "impossible": "refused: no input was found that satisfies its trigger",
}


def judge_batch(seed: int, size: int = SIZE) -> dict[str, Any]:
    """Draw mutants by a seed, prove them wrong, and return how many the suite catches, and which it misses."""
    counts: Counter[str] = Counter()
    survivors: dict[str, str] = {}
    errors: dict[str, str] = {}
    for mutant in itertools.islice(draw_mutants(seed), size):
        witness, fired = find_witness(mutant)
        if witness is None:
            counts["equivalent" if fired else "impossible"] += 1
            continue
        cell = judge_mutant(mutant)
        counts["caught" if cell is not None else "survives"] += 1
        if cell is None:
            survivors[mutant.name] = witness.describe()
        elif cell.status == FAULTY:
            errors[mutant.name] = cell.detail
    return {"counts": dict(counts), "survivors": survivors, "errors": errors}


def score_batches(batches: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Add the outcomes of several batches."""
    counts, survivors, number = Counter(dict.fromkeys(STATES, 0)), {}, 0
    for batch in batches:
        number += 1
        counts.update(batch["counts"])
        survivors |= batch["survivors"]
    proven = counts["caught"] + counts["survives"]
    share = counts["caught"] / proven if proven else 1.0
    return {
        "batches": number,
        **counts,
        "proven": proven,
        "share": round(share, 4),
        "survivors": dict(sorted(survivors.items())),
    }


def list_faults(result: Mapping[str, Any]) -> list[str]:
    """List the faults of the score of the batches."""
    if result["share"] >= LEAST_CAUGHT:
        return []
    return [f"only {result['caught']} of {result['proven']} generated mutants were caught"]


def write_lines(result: Mapping[str, Any]) -> Sequence[str]:
    """Return the lines of the page about generated mutants."""
    lines = [
        "## Generated mutants",
        "",
        "Right functions in five styles, each with one fault that shows under up to three circumstances. A name has",
        "the operation, the style, the fault and the circumstances. `tests/conformance/generated/` makes them.",
        "",
        *(f"- {words}: {result[state]}" for state, words in STATES.items()),
        f"- Share of caught mutants: {100 * result['share']:.1f} %",
        "",
    ]
    if result["survivors"]:
        lines += ["Not caught, each with an input that would catch it:", ""]
        lines += [f"- `{name}`: {words}" for name, words in result["survivors"].items()]
        lines.append("")
    return lines
