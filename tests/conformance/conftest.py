"""Makes the helpers beside the tests importable: the clippers of the exam, and the fake hosts."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
