"""Count the rules of runs: kept, documented, broken, and not tested. Cells are never given as a percentage."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from .lines import Run
from .statuses import LACKS, SEVERITIES, SPOILING, UNEXPLAINED, UNJUDGED, Status
from .values import format_count


@dataclass(frozen=True)
class RuleCounts:
    """The numbers of rules of one or several runs. Each rule counts once for each run."""

    kept: int
    documented: int
    broken: int
    #: The number of rules without a cell that could be tested.
    not_asked: int
    #: The number of findings that break rules, by severity, worst first.
    findings: dict[str, int]
    #: The number of all findings. Documentation or the dtype's arithmetic accounts for those that break no rule.
    all_findings: int
    #: The number of known failures without a reason.
    without_reason: int
    #: The number of cells that could not be tested, by what is missing.
    lacks: dict[str, int]

    @property
    def asked(self) -> int:
        """The number of rules with at least one judged cell."""
        return self.kept + self.documented + self.broken

    def write_sentence(self) -> str:
        """Return the numbers in one sentence."""
        breaking = sum(self.findings.values())
        # Reports list all findings.
        part = "" if breaking == self.all_findings else f"{breaking} of "
        parts = [f"rules kept {self.kept} of {self.asked} tested"]
        parts += [f"{self.documented} as documented"] if self.documented else []
        parts += [f"{self.broken} broken by {part}{format_count(self.all_findings, 'finding')}"] if self.broken else []
        parts += [f"{self.not_asked} could not be tested"] if self.not_asked else []
        return "; ".join(parts)


def count_rules(runs: Sequence[Run]) -> RuleCounts:
    """Count the rules of all runs."""
    totals: Counter[str] = Counter()
    lacks: Counter[str] = Counter()
    for run in runs:
        statuses: dict[str, set[str]] = {}
        for cell in run.cells:
            statuses.setdefault(cell.rule, set()).add(cell.status)
            if cell.status == Status.UNSUPPORTED and cell.lacks:
                lacks[cell.lacks] += 1
        totals.update(choose_verdict(found) for found in statuses.values())
    breaking = [one for run in runs for one in run.findings if _breaks(one.statuses)]
    severities = Counter(one.severity for one in breaking)
    # A record may come from a suite with other severities.
    order = [*SEVERITIES, *sorted(set(severities) - set(SEVERITIES))]
    return RuleCounts(
        totals["kept"],
        totals["documented"],
        totals["broken"],
        totals["not asked"],
        {name: severities[name] for name in order if severities[name]},
        sum(len(run.findings) for run in runs),
        sum(1 for one in breaking for part in one.singles if Status.KNOWN in part.statuses and not part.reason),
        {name: lacks[name] for name in LACKS if lacks[name]},
    )


def count_explained(runs: Iterable[Run]) -> tuple[int, int]:
    """Return the number of judged cells that did not pass, and how many of these a named cause explains."""
    differing = explained = 0
    for run in runs:
        named = {pair for finding in run.findings if finding.cause != UNEXPLAINED for pair in finding.pairs}
        cells = [cell.pair for cell in run.cells if cell.status not in (Status.PASS, *UNJUDGED)]
        differing += len(cells)
        explained += sum(cell in named for cell in cells)
    return differing, explained


def _breaks(statuses: Iterable[str]) -> bool:
    return bool({*statuses} & {*SPOILING, Status.KNOWN})


def choose_verdict(statuses: set[str]) -> str:
    """Return what became of a rule: "broken", "documented", "kept", "recorded" or "not asked"."""
    if _breaks(statuses):
        return "broken"
    if Status.DOCUMENTED in statuses:
        return "documented"
    if statuses <= {Status.UNSUPPORTED}:
        return "not asked"
    return "recorded" if statuses <= {Status.UNSUPPORTED, Status.UNSPECIFIED} else "kept"
