"""Read and write records. A record is a JSON Lines file, one line for each cell.

A run is a header, its cells, its findings, and a footer; a file holds one run after another. The footer says what was
planned, so missing lines are detected: :func:`read_runs` refuses a file that is cut short, edited or incomplete.

Writing needs only the standard library. Reading checks each line against its JSON Schema (package fastjsonschema, in
the extra `check`).
"""

from __future__ import annotations

from .lines import SCHEMA, Cell, Finding, Footer, Header, RecordError, Run, hash_plan
from .reading import read_partial, read_runs
from .writing import make_footer, write_run

__all__ = [
    "SCHEMA",
    "Cell",
    "Finding",
    "Footer",
    "Header",
    "RecordError",
    "Run",
    "hash_plan",
    "make_footer",
    "read_partial",
    "read_runs",
    "write_run",
]
