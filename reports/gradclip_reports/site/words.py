"""Define the words of the pages for operations, levels, verdicts and standings."""

from __future__ import annotations

__all__ = ["LEVELS", "MATRIX_PAGES", "OPERATION_LABELS", "OTHER_LABELS", "STANDINGS_OF_FINDINGS", "VERDICTS"]

#: The operations. The empty one stands for the first that can answer a question.
OPERATION_LABELS = {
    "": "global norm if offered",
    "clip_by_global_norm": "by global norm",
    "clip_by_norm": "by norm",
    "clip_by_value": "by value",
}
#: The operations without a page of the matrix.
OTHER_LABELS = {
    "clip_by_block_rms": "by block RMS",
    "clip_by_average_norm": "by average norm",
    "clip_per_example": "per example",
    "clip_unitwise": "unitwise",
}
#: The pages of the matrix, by operation.
MATRIX_PAGES = {
    "": "index",
    "clip_by_global_norm": "by-global-norm",
    "clip_by_norm": "by-norm",
    "clip_by_value": "by-value",
}
#: The levels of rules.
LEVELS = {
    "must": "The documents say it",
    "should": "The documents do not say it, but a user can expect it",
    "quality": "About accuracy",
    "unspecified": "Recorded, never judged",
}
#: The classes of verdicts on rules, worst first.
VERDICTS = ("broken", "documented", "right", "unknown")
#: The standings of findings.
STANDINGS_OF_FINDINGS = {
    "new": "new: nothing documents it, and it is not known",
    "known": "known: recorded with its reason",
    "documented": "documented by the framework",
    "declared": "declared by the adapter",
    "poor": "poor, as the dtype's arithmetic explains",
}
