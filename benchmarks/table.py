"""Make a table and a plot of the results of pytest-benchmark: the reference's time as a share of each peer's.

`python benchmarks/table.py OUT RESULT.json...` writes OUT.md, OUT.json and OUT.svg, and prints the table. Each round
times both, one after the other, and gives a ratio. The table shows the median of these ratios. A ratio can be compared
with that of another machine, although it is not the same; milliseconds cannot.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["Comparison", "comparisons", "markdown"]

#: The largest ratio to each peer that the project accepts.
MUST: dict[str, float] = {
    "np.linalg.norm, p = 1": 2.0,
    "np.linalg.norm, p = 2": 2.0,
    "np.linalg.norm, p = inf": 2.0,
    "NumPy as people write it, by value": 1.0,
    "NumPy as people write it, by norm": 0.9,
    "torch clip_grad_norm_ (foreach)": 0.9,
    "NumPy as people write it": 0.4,
    "optax.clip_by_global_norm (jit)": 1.1,
    "optax.clip_by_global_norm (compile time)": 1.1,
    "tf.clip_by_global_norm (tf.function)": 1.1,
    "paddle.nn.ClipGradByGlobalNorm": 1.1,
    "memory floor (NumPy)": 1.2,
    "memory floor (torch)": 1.2,
}

#: The benchmark that measured the memory floor of a peer's arrays.
FLOORS = {
    "torch clip_grad_norm_ (foreach)": "memory floor (torch)",
    "NumPy as people write it": "memory floor (NumPy)",
}


@dataclass(frozen=True)
class Comparison:
    """The reference and a peer on one workload."""

    peer: str
    workload: str
    dtype: str
    mode: str
    clipped: bool
    ours: float
    theirs: float
    #: The median of the ratios of our time to the peer's, and the range that holds the middle half of them.
    ratio: float
    least: float
    most: float

    @property
    def name(self) -> str:
        """Return the workload and its options."""
        return f"{self.workload}, {self.dtype}, {self.mode}, {'clipped' if self.clipped else 'nothing to clip'}"


def comparisons(results: Iterable[dict[str, Any]]) -> list[Comparison]:
    """Return the comparisons, in the order of the files."""
    found = []
    for result in results:
        for benchmark in result["benchmarks"]:
            info = benchmark["extra_info"]
            if "peer" not in info:
                # The benchmark of the first call has no peer.
                continue
            names = (info[name] for name in ("peer", "workload", "dtype", "mode"))
            ours, theirs = benchmark["stats"]["median"], info["peer_median"]
            least, ratio, most = info["ratio_quartiles"]
            found.append(Comparison(*names, info["clipped"] == "True", ours, theirs, ratio, least, most))
    return found


def markdown(found: list[Comparison], results: list[dict[str, Any]]) -> str:
    """Return a table for each peer."""
    machine = results[0]["machine_info"]
    cpu = machine.get("cpu", {})
    lines = [
        "# How long the reference takes, beside its peers",
        "",
        (
            f"Medians of one run, {results[0]['datetime'][:10]}, {cpu.get('brand_raw', machine['machine'])}, "
            f"{cpu.get('count', '?')} cores, Python {machine['python_version']}. "
            "Both take turns. The ratio of a round is our time over the peer's: below 1, the reference is faster. The "
            "table gives the median, and the range of the middle half of the rounds. Ratios differ from one machine to "
            "another, milliseconds even more."
        ),
    ]
    for peer in dict.fromkeys(comparison.peer for comparison in found):
        of_peer = [comparison for comparison in found if comparison.peer == peer]
        missed = sum(comparison.ratio > MUST[peer] for comparison in of_peer)
        verdict = f"{missed} of {len(of_peer)} above it" if missed else f"all {len(of_peer)} within it"
        lines += ["", f"## {peer}", "", f"Accepted: a ratio of at most {MUST[peer]:g}; {verdict}.", ""]
        lines += ["| workload | ours, ms | peer, ms | ratio | half of the rounds | |", "|---|---:|---:|---:|---|---|"]
        for comparison in of_peer:
            over = "above" if comparison.ratio > MUST[peer] else ""
            lines.append(
                f"| {comparison.name} | {comparison.ours * 1e3:.2f} | {comparison.theirs * 1e3:.2f} "
                f"| {comparison.ratio:.2f} | {comparison.least:.2f} to {comparison.most:.2f} | {over} |"
            )
        lines += _bounds(of_peer, found)
    return "\n".join(lines) + "\n"


def _bounds(of_peer: list[Comparison], found: list[Comparison]) -> list[str]:
    """Return lines with the time that memory alone takes, to read and write all arrays once."""
    floors = {(floor.peer, floor.workload): floor.theirs for floor in found if floor.peer in FLOORS.values()}
    shares = [
        f"{floors[key] / comparison.theirs:.2f} of the peer's time for {comparison.name}"
        for comparison in of_peer
        if (key := (FLOORS.get(comparison.peer), comparison.workload)) in floors
        and (comparison.mode, comparison.clipped, comparison.dtype) == ("in place", True, "float32")
    ]
    return ["", f"The memory floor alone takes {', '.join(shares)}."] if shares else []


def plot(found: list[Comparison], path: Path) -> None:
    """Draw one panel for each peer and one bar for each comparison, on a logarithmic scale around 1."""
    import matplotlib

    matplotlib.use("svg")
    # Equal results give equal files.
    matplotlib.rcParams["svg.hashsalt"] = "gradclip-spec"
    from matplotlib import pyplot

    peers = list(dict.fromkeys(comparison.peer for comparison in found))
    rows = [[comparison for comparison in found if comparison.peer == peer] for peer in peers]
    figure, axes = pyplot.subplots(
        len(peers),
        1,
        figsize=(9, 0.6 + sum(0.22 * len(row) + 0.7 for row in rows)),
        gridspec_kw={"height_ratios": [len(row) + 1 for row in rows]},
        sharex=True,
        squeeze=False,
        layout="constrained",
    )
    for axis, peer, row in zip(axes[:, 0], peers, rows, strict=True):
        colors = ["#2a7f62" if comparison.ratio <= MUST[peer] else "#c0392b" for comparison in row]
        below = [comparison.ratio - comparison.least for comparison in row]
        above = [comparison.most - comparison.ratio for comparison in row]
        # fmt: off
        axis.barh(
            range(len(row)), [comparison.ratio for comparison in row], color=colors, height=0.7, xerr=(below, above),
            error_kw={"linewidth": 0.8},
        )
        # fmt: on
        axis.set_yticks(range(len(row)), [comparison.name for comparison in row], fontsize=7)
        axis.invert_yaxis()
        axis.axvline(1.0, color="black", linewidth=0.8)
        axis.axvline(MUST[peer], color="black", linewidth=0.8, linestyle=":")
        axis.set_title(f"against {peer}", fontsize=9, loc="left")
    axes[-1, 0].set_xscale("log")
    axes[-1, 0].set_xlabel(
        "our time / the peer's, in the middle half of the rounds (dotted: the most that is accepted)"
    )
    figure.savefig(path, metadata={"Date": None})


def main(arguments: list[str]) -> int:
    """Write the three files and print the table."""
    if len(arguments) < 2:
        print(__doc__)
        return 2
    out = Path(arguments[0])
    results = [json.loads(Path(path).read_text(encoding="utf-8")) for path in arguments[1:]]
    found = comparisons(results)
    text = markdown(found, results)
    out.with_suffix(".md").write_text(text, encoding="utf-8")
    rows = [vars(comparison) for comparison in found]
    out.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    plot(found, out.with_suffix(".svg"))
    print(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
