"""Run the distributed entry points of frameworks on their own engines, in several processes or on several devices."""

from __future__ import annotations

import pytest
from frameworks import find_python

from gradclip_conformance.run.host_process import HostProcess, build_host_command
from gradclip_conformance.run.plan import Selection
from gradclip_conformance.run.runner import RunRequest, run_adapter
from gradclip_reports.statuses import SPOILING

#: The engines of each framework, by a word in the names of their entry points.
ENGINES = {
    "torch": ("DTensor]", "DTensor, two axes", "FSDP2]", "FSDP2, tensor parallel", "HSDP", "DDP"),
    "accelerate": ("DTensor, two axes", "FSDP2, tensor parallel", "HSDP"),
    "torchtitan": ("DTensor, two axes", "FSDP2, tensor parallel", "HSDP", "ep_enabled"),
    "fabric": ("DTensor, two axes", "FSDP2, tensor parallel", "HSDP"),
    "transformers": ("DTensor, two axes", "FSDP2, tensor parallel", "HSDP"),
    "optax": ("eager, sharded", "jit, sharded", "jit, replica=2,shard=2,tensor=2", "shard_map"),
    "jax": ("jit, replica=2,shard=2,tensor=2", "shard_map"),
    "tensorflow": ("MirroredStrategy",),
    "keras-tensorflow": ("MirroredStrategy",),
    "paddle": ("ClipGradByGlobalNorm)", "[dp]", "[pp]", "[sharding]"),
    "deepspeed": ("ZeRO 3", "ZeRO 0, experts", "ZeRO 1, experts", "ZeRO 2, experts"),
}


@pytest.mark.thorough(sample=0)
@pytest.mark.parametrize(
    "framework", [pytest.param(name, marks=pytest.mark.framework(name), id=name) for name in ENGINES]
)
def test_every_cell_of_an_engine_is_as_expected(framework: str) -> None:
    command = [*build_host_command(find_python(framework)), framework]
    selection = Selection(rules=("*.shards-as-whole",), dtypes=("float32",))
    request = RunRequest(framework, lambda: HostProcess(command), selection, timeout=120.0)

    run = run_adapter(request)

    assert [f"{cell.case} of {cell.subject}: {cell.detail}" for cell in run.cells if cell.status in SPOILING] == []
    answered = {cell.subject for cell in run.cells if cell.status in ("pass", "documented")}
    assert answered == {cell.subject for cell in run.cells}
    assert all(any(engine in entry_point for entry_point in answered) for engine in ENGINES[framework])
