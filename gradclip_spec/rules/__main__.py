"""Print the rule catalogue: `python -m gradclip_spec.rules > SPEC.md`."""

from __future__ import annotations

import sys

from .catalogue import write_catalogue

# The catalogue quotes Chinese, which a terminal's encoding may lack.
sys.stdout.buffer.write(write_catalogue().encode("utf-8"))
