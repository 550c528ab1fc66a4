"""Print the rule book: `python -m gradclip_spec.rules > SPEC.md`."""

from __future__ import annotations

import sys

from .book import book

# The book quotes Chinese, which a terminal's encoding may lack.
sys.stdout.buffer.write(book().encode("utf-8"))
