"""Write a page and a picture of the comparisons: our time over each peer's time, and the largest accepted ratio.

In each round, the reference and the peer are timed one after the other; a ratio is the median over all rounds. Ratios
differ a little from machine to machine, and milliseconds differ a lot.
"""

from __future__ import annotations

import datetime
import json
import os
import platform
import statistics
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from measure import Comparison
from workloads import WORKLOADS

from gradclip_reports.markup import draw_markdown_table

#: The largest ratio, or number of seconds, that the project accepts for each peer.
MUST: dict[str, float] = {
    "torch clip_grad_norm_ (foreach)": 0.9,
    "NumPy as people write it": 0.4,
    "NumPy as people write it (without the extra)": 0.9,
    "memory floor (NumPy)": 1.2,
    "memory floor (torch)": 1.2,
    "optax.clip_by_global_norm (jit)": 1.1,
    "optax.clip_by_global_norm (compile time)": 1.1,
    "tf.clip_by_global_norm (tf.function)": 1.1,
    "paddle.nn.ClipGradByGlobalNorm": 1.1,
}
#: The largest accepted values for single rows, by peer and workload.
MUST_OF: dict[tuple[str, str], float] = {
    ("np.linalg.norm", "1 x 10,000,000"): 2.0,
    ("seconds of a process", "import"): 0.05,
    ("seconds of a process", "first call that compiled loops serve"): 1.0,
}


def find_accepted(row: Comparison) -> float | None:
    """Return the largest value that is accepted for a comparison, or None if there is no limit."""
    return MUST_OF.get((row.peer, row.workload), MUST.get(row.peer))


def publish(found: list[Comparison], out: Path) -> int:
    """Write OUT.md, OUT.json and OUT.svg, and print pass or fail for each row that has a limit."""
    text = _write_page(found, out.with_suffix(".svg").name)
    out.with_suffix(".md").write_text(text, encoding="utf-8")
    rows = [asdict(each) for each in found]
    out.with_suffix(".json").write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    _draw(found, out.with_suffix(".svg"))
    asked = [(row, most) for row in found if (most := find_accepted(row)) is not None]
    for row, most in sorted(asked, key=lambda pair: pair[0].ratio / pair[1]):
        verdict = "pass" if row.ratio <= most else "FAIL"
        print(f"{verdict}  {row.ratio:7.3f} (at most {most:g})  {row.peer}: {_name(row)}")
    print(f"{sum(row.ratio <= most for row, most in asked)} of {len(asked)} pass")
    return 0


def _name(row: Comparison) -> str:
    return ", ".join(filter(None, (row.workload, row.dtype, row.mode)))


def _group_by_peer(found: list[Comparison]) -> dict[str, list[Comparison]]:
    return {peer: [row for row in found if row.peer == peer] for peer in dict.fromkeys(row.peer for row in found)}


def _write_page(found: list[Comparison], picture: str) -> str:
    lines = [
        "# How long the reference takes, beside its peers",
        "",
        f"![One line for each peer: our time over the peer's, against the size]({picture})",
        "",
        (
            f"One run, {datetime.datetime.now(datetime.UTC).date()}, {_name_processor()}, {os.cpu_count()} cores, "
            f"Python {platform.python_version()}. The reference and the peer take turns. The ratio of a round is our "
            "time over the peer's: below 1, the reference is faster. Tables give the median, and the range of the "
            "middle half of the rounds. Ratios differ from one machine to another, and milliseconds even more."
        ),
        "",
    ]
    head = "peer", "accepted ratio", "rows", "accepted", "smallest ratio", "median", "largest"
    summary: list[tuple[str, ...]] = [head]
    for peer, rows in _group_by_peer(found).items():
        ratios = [row.ratio for row in rows]
        met = [row.ratio <= most for row in rows if (most := find_accepted(row)) is not None]
        of_all = (f"{ratio:.2f}" for ratio in (min(ratios), statistics.median(ratios), max(ratios)))
        accepted = f"{MUST[peer]:g}" if peer in MUST else "see below" if met else "-"
        summary.append((peer, accepted, str(len(rows)), f"{sum(met)} of {len(met)}" if met else "-", *of_all))
    lines.append(draw_markdown_table(summary, right=head[1:]))
    for peer, rows in _group_by_peer(found).items():
        lines += ["", f"## {peer}", ""]
        table = [("workload", "ours, ms", "peer, ms", "ratio", "half of the rounds", "")]
        for row in rows:
            most = find_accepted(row)
            over = f"above {most:g}" if most is not None and row.ratio > most else ""
            theirs, ratio = (f"{row.theirs * 1e3:.3f}", f"{row.ratio:.2f}") if row.theirs else ("", "")
            half = f"{row.least:.2f} to {row.most:.2f}{'' if row.theirs else ' s'}"
            table.append((_name(row), f"{row.ours * 1e3:.3f}", theirs, ratio, half, over))
        lines.append(draw_markdown_table(table, right=("ours, ms", "peer, ms", "ratio")))
    return "\n".join(lines) + "\n"


def _name_processor() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text(encoding="utf-8").splitlines() if info.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _draw(found: list[Comparison], path: Path) -> None:
    """Draw one line for each peer: single arrays by their size, lists by their length."""
    import matplotlib

    matplotlib.use("svg")
    # Without this, the same results would give another file each time.
    matplotlib.rcParams["svg.hashsalt"] = "gradclip-spec"
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 5.5), sharey=True, layout="constrained")
    singles = [name for name in WORKLOADS if name.startswith("1 x ")]
    lists = [name for name in WORKLOADS if name not in singles]
    size_of: Callable[[str], Any] = lambda name: WORKLOADS[name]()[0][0]  # noqa: E731
    colors = matplotlib.colormaps["tab10"]
    for index, peer in enumerate(peer for peer in MUST if any(row.peer == peer for row in found)):
        ratios: dict[str, list[float]] = {}
        for row in found:
            if row.peer == peer and row.dtype == "float32" and "nothing" not in row.mode:
                ratios.setdefault(row.workload, []).append(row.ratio)
        for axes, names, place in ((left, singles, size_of), (right, lists, lists.index)):
            points = [(place(name), statistics.median(ratios[name])) for name in names if name in ratios]
            style = {"color": colors(index), "marker": "o", "markersize": 4, "label": peer}
            axes.plot(*zip(*points, strict=True), **style) if points else None
    left.set_xscale("log")
    left.set_title("float32 by global norm: one array", fontsize=10)
    right.set_title("lists", fontsize=10)
    left.set_xlabel("elements of one array")
    left.set_ylabel("our time / the peer's (below 1: the reference is faster)")
    right.set_xticks(range(len(lists)), lists, rotation=35, ha="right")
    right.set_xlabel("tensors x elements of each")
    left.set_yscale("log")
    ticks = [0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5]
    left.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    for axes in (left, right):
        axes.axhline(1.0, color="black", linewidth=0.8)
        axes.grid(visible=True, which="major", linewidth=0.3)
    handles, labels = left.get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside upper center", ncols=3, fontsize=8, frameon=False)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)
