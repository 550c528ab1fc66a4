"""Make up runs with the size and the mixture of statuses that real frameworks give."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Sequence
from typing import Any

from gradclip_reports.records import Cell, Finding, Footer, Header, Run, hash_plan, write_run

RULES = {
    "formula": ["scaled-above", "identity-below", "at-threshold", "neighbours-of-threshold", "infinity-norm"],
    "exclusion": ["excluded-untouched", "excluded-not-counted", "all-excluded"],
    "structure": ["none-stays-none", "empty-list", "zero-dimensional", "dtype-kept", "mixed-dtypes", "many-tensors"],
    "zero": ["zero-gradient", "zero-gradient-zero-threshold"],
    "nonfinite": ["nan-not-silent", "infinite-threshold", "error-if-nonfinite-atomic", "returned-norm-nonfinite"],
    "range": ["overflow-of-squares", "underflow-of-squares", "subnormal"],
    "arguments": ["negative-threshold-refused", "nan-threshold-refused"],
}
DTYPES = ["float16", "bfloat16", "float32", "float64"]
OPERATIONS = {"clip_by_value": "value", "clip_by_norm": "norm", "clip_by_global_norm": "global-norm"}


#: A text with a meaning to a terminal, to XML, to Markdown, to HTML, to templates and to formulas.
HOSTILE = (
    "$x_$|`b`\\|\x1b[2J\u202e&lt;</script><script>alert(1)</script></details><img src=x onerror=alert(1)>\n\n'\" | y"
    "{{ 7*7 }}{% raw %}**x**evil\u2028\x00\ufffe"
)


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def make_header(
    adapter: str = "torch", version: str = "2.13.0", entry_points: Sequence[tuple[str, str]] = ()
) -> Header:
    """Return a header. Each entry point is (name, operation)."""
    listed = [
        {"name": name, "operation": operation, "dtypes": DTYPES, "features": [], "norm_types": ["0x1p+1"]}
        | {"formula": None}
        for name, operation in entry_points or [("clip", "clip_by_norm")]
    ]
    return Header(
        suite={"name": "gradclip-spec", "version": "0.1.0"},
        adapter=adapter,
        framework={"name": adapter, "version": version},
        environment={"python": "3.11.9", "platform": "Linux x86_64"},
        subjects=listed,
        command=["check", adapter],
        started="2026-11-21T02:38:27Z",
        seed=0,
    )


def make_cell(**changed: Any) -> Cell:
    """Return a cell that passed, with some members replaced."""
    members: dict[str, Any] = {
        "subject": "clip",
        "operation": "clip_by_norm",
        "rule": "norm.scaled-above",
        "case": "norm.scaled-above/one-tensor/float32",
        "level": "must",
        "dtype": "float32",
        "status": "pass",
        "seconds": 0.0021,
    }
    detail = {} if changed.get("status", "pass") == "pass" else {"detail": "The result is half of what it must be."}
    return Cell(**(members | detail | changed))


def make_run(header: Header, cells: Sequence[Cell], not_run: Sequence[tuple[str, str]] = ()) -> Run:
    plan = [*((cell.subject, cell.case) for cell in cells), *not_run]
    footer = Footer(
        planned=len(plan),
        finished=len(cells),
        counts=dict(Counter(cell.status for cell in cells)),
        plan_sha256=hash_plan(plan),
        incomplete=bool(not_run),
        not_run=not_run,
    )
    return Run(header, tuple(cells), footer)


def make_finding(*cells: Cell, **changed: Any) -> Finding:
    named: dict[str, list[str]] = {}
    for cell in cells:
        named.setdefault(cell.subject, []).append(cell.case)
    members: dict[str, Any] = {
        "cause": "burns-the-toast",
        "title": "burns the toast",
        "question": "What becomes of the toast?",
        "severity": "wrong",
        "why": "Nobody can eat it.",
        "parameters": {"minutes": 2.5},
        "cells": named,
        "rules": dict(Counter(cell.rule for cell in cells)),
        "statuses": dict(Counter(cell.status for cell in cells)),
        "example": {"subject": cells[0].subject, "case": cells[0].case, "detail": cells[0].detail},
    }
    return Finding(**(members | changed))


def make_uniform(cell: Cell, text: str, **changed: Any) -> Finding:
    """Return a finding whose texts are all the same, with some members replaced."""
    members: dict[str, Any] = {
        **dict.fromkeys(("cause", "title", "question", "why", "reason", "quote", "url"), text),
        "parameters": {"effect": text, text: text, "text": text},
        "example": {"subject": cell.subject, "case": cell.case, "detail": text}
        | {"input": {text: text}, "expected": text, "observed": [text]},
    }
    return make_finding(cell, **(members | changed))


def write_record_text(runs: Sequence[Run]) -> str:
    stream = io.StringIO()
    for run in runs:
        write_run(stream, run)
    return stream.getvalue()


def choose_status(number: int) -> str:
    """Return a status: mostly a pass, and others at fixed places."""
    odd = {97: "fail", 131: "known", 61: "quality", 499: "timeout", 601: "crash", 43: "unspecified"}
    return next((status for step, status in odd.items() if number % step == step - 1), "pass")


def make_realistic_run(adapter: str, version: str, entry_points: Sequence[tuple[str, str]], variants: int = 3) -> Run:
    """Return a run of all made-up rules with every status except `error`."""
    cells: list[Cell] = []
    for entry_point, operation in entry_points:
        for theme, names in RULES.items():
            for name in names:
                for variant in range(variants):
                    for dtype in DTYPES:
                        status = choose_status(len(cells))
                        status = "unsupported" if (dtype, theme) == ("bfloat16", "range") else status
                        status = "documented" if name == "scaled-above" and "torch" in adapter else status
                        rule = f"{OPERATIONS[operation]}.{name}"
                        cell = make_cell(
                            subject=entry_point,
                            operation=operation,
                            rule=rule,
                            case=f"{rule}/variant-{variant}/{dtype}",
                            dtype=dtype,
                            theme=theme,
                            status=status,
                            level="should" if theme in ("zero", "range") else "must",
                            input={"clip_norm": (2.0).hex(), "gradients": [[(3.0).hex(), (4.0).hex()]]},
                            expected=[[(1.2).hex(), (1.6).hex()]],
                            observed=[[(0.6).hex(), "nan"]],
                        )
                        cells.append(cell)
    return make_run(make_header(adapter, version, entry_points), cells)
