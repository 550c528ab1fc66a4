"""Fuzz the first line that a host prints. The line describes the adapter, or says why the host does not start."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from gradclip_adapters.contract import OPERATIONS
from gradclip_adapters.host import describe
from gradclip_conformance.judge.model import StartError
from gradclip_conformance.run.plan import Selection

from ..connections import Connected, check_run, read_description
from ..documents import Halving
from ..guards import enter_folder
from ..mutation import change, draw_named, write_text
from ..target import Target, require

DOCUMENTS = {
    "about": describe(Halving([(f"subject {operation}", operation) for operation in OPERATIONS])),
    "failed": {"message": "failed", "kind": "missing-framework", "text": "no such module"},
}
SELECTION = Selection(rules=("*.scaled-above/three-four-five/float32", "value.bounds/max-only/float32"))

EXAMPLES = st.fixed_dictionaries(
    {"document": draw_named(DOCUMENTS), "cut": st.sampled_from((None,) * 9 + (1, 40, 200))}
)


def check(example: Any) -> None:
    """Read a changed first line, and run a few cases of the host that it describes."""
    name, wanted = example["document"]
    line = write_text(change(DOCUMENTS[name], wanted))[: example["cut"]]
    try:
        description = read_description(line)
    except StartError as error:
        require(str(error) or error.kind, "a host does not start, and nothing says why")
        require(len(str(error)) < 10_000 or name == "failed", f"the reason has {len(str(error))} characters")
        return
    with enter_folder():
        check_run(Connected(description), "fuzzed", SELECTION)


TARGET = Target(EXAMPLES, check)
