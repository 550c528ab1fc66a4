"""Print the rule book: `python -m gradclip_spec.rules > SPEC.md`."""

from __future__ import annotations

import sys

from .book import write_book

# The book quotes Chinese, which a terminal's encoding may lack.
sys.stdout.buffer.write(write_book().encode("utf-8"))
