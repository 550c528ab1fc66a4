"""Say how many examples each test draws, and check what an example writes and needs."""

from __future__ import annotations

import contextlib
import os
import resource
import tempfile
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

from hypothesis import HealthCheck, settings

from .texts import MARKER

_EXAMPLES = os.environ.get("GRADCLIP_EXAMPLES")
#: Without GRADCLIP_EXAMPLES a test draws few examples, the same in each run. With it, `--hypothesis-seed` says which.
#: No example needs a minute, so one that takes two almost hangs.
FUZZ = settings(
    max_examples=int(_EXAMPLES or 5),
    derandomize=_EXAMPLES is None,
    deadline=timedelta(minutes=2),
    suppress_health_check=list(HealthCheck),
)

#: The memory in MiB that an example may need beyond that of all examples before it. None needs a tenth of it.
MEBIBYTES = 1024


@contextlib.contextmanager
def isolate() -> Iterator[Path]:
    """Make a folder for one example, and work in it.

    Afterwards, check that the example wrote nothing beside it, executed no payload, and needed little memory.
    """
    before, memory = Path.cwd(), _measure_peak()
    with tempfile.TemporaryDirectory(prefix="gradclip-fuzz-") as name:
        top = Path(name).resolve()
        # A path such as `../../../x` leads to a folder between the two.
        folder = top / "a" / "b" / "c"
        folder.mkdir(parents=True)
        os.chdir(folder)
        try:
            yield folder
        finally:
            os.chdir(before)
        assert not (folder / MARKER).exists(), "a payload was executed"
        assert [path for path in top.rglob("*") if not path.is_relative_to(folder)] == [top / "a", top / "a" / "b"]
    assert _measure_peak() - memory < MEBIBYTES, "too much memory"


def _measure_peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
