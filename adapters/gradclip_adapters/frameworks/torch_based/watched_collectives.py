"""Tell which collectives of torch a function enters, before it enters them."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import FrameType
from typing import Any, Callable, Iterator, Mapping, Sequence

import torch
from torch.distributed import ProcessGroup, Work, distributed_c10d
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode

from ...matching import GivenUp, name_ranks
from ...mesh import Mesh
from ...processes import Ask

#: The libraries of torch's operators that hold its collectives.
NAMESPACES = ("c10d", "_c10d_functional", "_c10d_functional_autograd", "_dtensor")

#: The collective that each operator performs. Those of different libraries match each other.
COLLECTIVES = {
    "allreduce_": "all_reduce",
    "all_reduce": "all_reduce",
    "all_reduce_": "all_reduce",
    "allreduce_coalesced_": "all_reduce_coalesced",
    "all_reduce_coalesced": "all_reduce_coalesced",
    "all_reduce_coalesced_": "all_reduce_coalesced",
    "allgather_": "all_gather",
    "_allgather_base_": "all_gather",
    "all_gather_into_tensor": "all_gather",
    "all_gather_into_tensor_out": "all_gather",
    "allgather_coalesced_": "all_gather_coalesced",
    "allgather_into_tensor_coalesced_": "all_gather_coalesced",
    "all_gather_into_tensor_coalesced": "all_gather_coalesced",
    "reduce_scatter_": "reduce_scatter",
    "_reduce_scatter_base_": "reduce_scatter",
    "reduce_scatter_tensor": "reduce_scatter",
    "reduce_scatter_tensor_out": "reduce_scatter",
    "reduce_scatter_tensor_coalesced_": "reduce_scatter_coalesced",
    "reduce_scatter_tensor_coalesced": "reduce_scatter_coalesced",
    "broadcast_": "broadcast",
    "broadcast": "broadcast",
    "reduce_": "reduce",
    "gather_": "gather",
    "scatter_": "scatter",
    "alltoall_": "all_to_all",
    "alltoall_base_": "all_to_all",
    "all_to_all_single": "all_to_all",
    "shard_dim_alltoall": "all_to_all",
    "barrier": "barrier",
    "monitored_barrier_": "barrier",
}

#: The arguments that hold the tensors which a rank brings. Of a scatter, only the results are on all ranks.
BROUGHT = ("tensors", "input", "inputs", "input_tensor", "input_tensors", "input_list")
BROUGHT_BY = {"scatter": ("output_tensors",), "barrier": ()}

#: The arguments that hold the tensors for the results of these collectives. Functional collectives have none. A rank
#: with tensors of another size raises an error inside the collective, and leaves the others in it.
GIVEN_BACK = {
    "all_gather": ("output_tensor", "output_tensors"),
    "reduce_scatter": ("output_tensor", "output_tensors"),
}

#: Makes a group of processes, however the function asks torch for one.
_make_group = distributed_c10d._new_group_with_tag

#: The lines of these files are not the user's: torch, this package and Python's own library.
TORCHS = str(Path(torch.__file__).parent) + os.sep
OURS = str(Path(__file__).parents[2]) + os.sep
PYTHONS = str(Path(os.__file__).parent) + os.sep


class WatchedCollectives(TorchDispatchMode):  # type: ignore[misc]
    """While this is entered, ask before each collective of this thread whether it takes place.

    `ask` sends a message, and returns the answer. Its word `go` lets the collective take place.
    """

    def __init__(self, mesh: Mesh, rank: int, ask: Ask) -> None:
        super().__init__()
        self._mesh, self._rank, self._ask = mesh, rank, ask
        self._works: list[Any] = []

    def __enter__(self) -> Any:
        """Begin to watch this thread."""
        self._works.clear()
        # Making a group is no operator.
        distributed_c10d._new_group_with_tag = self._make_group
        return super().__enter__()

    def __exit__(self, *error: Any) -> Any:
        """End the watch."""
        distributed_c10d._new_group_with_tag = _make_group
        return super().__exit__(*error)

    def __torch_dispatch__(
        self, func: Any, types: Sequence[type], args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Perform an operator. A DTensor performs it by operators on its part, which come here later."""
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented
        keywords = kwargs or {}
        if func.namespace in NAMESPACES:
            given = {**dict(zip((argument.name for argument in func._schema.arguments), args)), **keywords}
            name = func._schema.name.partition("::")[2]
            if name in ("send", "recv_"):
                return self._post(name, given, lambda: func(*args, **keywords))
            if name in COLLECTIVES:
                self._announce(COLLECTIVES[name], given)
        return func(*args, **keywords)

    def _make_group(self, ranks: Sequence[int] | None = None, *args: Any, **keywords: Any) -> Any:
        """Make a group when all ranks make it that must: those of the group, or all."""
        every = list(range(self._mesh.size))
        members = every if ranks is None else sorted(ranks)
        entry = {
            "kind": f"new_group of {name_ranks(members)}",
            "group": members if keywords.get("use_local_synchronization") else every,
            "place": _find_place(),
            "channel": "new_group",
        }
        self._wait(entry)
        return _make_group(ranks, *args, **keywords)

    def _wait(self, entry: Mapping[str, Any]) -> None:
        """Wait until a collective may take place."""
        if self._ask({"message": "enters", **entry})["message"] != "go":
            raise GivenUp

    def _post(self, name: str, given: Mapping[str, Any], perform: Callable[[], Any]) -> Any:
        """Send or receive a message, and return the work. It is checked when the function waits for the work."""
        group = ProcessGroup.unbox(given["process_group"])
        ranks = torch.distributed.get_process_group_ranks(group)
        peer = ranks[given["dst" if name == "send" else "src"]]
        pair = (self._rank, peer) if name == "send" else (peer, self._rank)
        verb = "send" if name == "send" else "receive"
        half = f"{verb} {pair[0]}>{pair[1]} in {group.group_name}:{given['tag']}"
        entry = {
            "kind": f"{'send to' if name == 'send' else 'recv from'} rank {peer}",
            "group": [],
            "place": _find_place(),
            "shown": _describe_tensors(given["tensors"]),
            "half": half,
            "count": self._ask({"message": "posts", "half": half})["count"],
        }
        work = _WatchedWork(Work.unbox(perform()), lambda: self._wait(entry))
        # torch keeps no reference to an object of a class of Python.
        self._works.append(work)
        return Work.boxed(work)

    def _announce(self, collective: str, given: Mapping[str, Any]) -> None:
        """Wait until a collective may take place, by the arguments of its operator."""
        group = _find_group(given)
        ranks = torch.distributed.get_process_group_ranks(group)
        tensors = list(_list_tensors([given.get(name) for name in BROUGHT_BY.get(collective, BROUGHT)]))
        # The parts of an exchange may differ in length.
        sizes = ["" if collective == "all_to_all" else f" of {tensor.numel()} elements" for tensor in tensors]
        forms = [_name_dtype(tensor) + size for tensor, size in zip(tensors, sizes)]
        shown = _describe_tensors(tensors)
        if collective in GIVEN_BACK:
            into = f" into {_count_results(given, tensors, ranks, collective)} elements"
            forms.append(into)
            shown += into
        entry = {
            "kind": collective + _describe_options(given, ranks) + self._name_group(ranks),
            "group": ranks,
            "channel": group.group_name,
            "place": _find_place(),
            "form": ", ".join(forms),
            "shown": shown,
        }
        self._wait(entry)

    def _name_group(self, ranks: Sequence[int]) -> str:
        """Return the axes of a group in words, as the end of a name. They are empty for all ranks."""
        if len(ranks) == self._mesh.size:
            return ""
        here = self._mesh.find_coordinates(self._rank)
        axes = [
            name
            for name in self._mesh.axes
            if any(self._mesh.find_coordinates(rank)[name] != here[name] for rank in ranks)
        ]
        if list(self._mesh.find_group(self._rank, axes)) == sorted(ranks):
            return f" over {', '.join(axes) or 'no axis'}"
        return f" among {name_ranks(sorted(ranks))}"


class _WatchedWork(Work):  # type: ignore[misc]
    """The sending or receiving of a message, which first asks whether the other rank takes part in it."""

    def __init__(self, work: Any, announce: Callable[[], None]) -> None:
        super().__init__()
        self._work, self._announce = work, announce

    def wait(self, timeout: Any = None) -> bool:
        """Wait for the message, if it will come. Then no time limit is needed."""
        del timeout
        self._announce()
        return bool(self._work.wait())


def _find_group(given: Mapping[str, Any]) -> Any:
    """Return the group of processes from the arguments of an operator."""
    if "process_group" in given:
        return ProcessGroup.unbox(given["process_group"])
    group = given["group_name"]
    if isinstance(group, str):
        return distributed_c10d._resolve_process_group(group)
    return group if isinstance(group, ProcessGroup) else ProcessGroup.unbox(group)


def _list_tensors(values: Any) -> Iterator[torch.Tensor]:
    """Yield the tensors in lists, which may be nested."""
    if isinstance(values, torch.Tensor):
        yield values
    elif isinstance(values, (list, tuple)):
        for value in values:
            yield from _list_tensors(value)


def _count_results(
    given: Mapping[str, Any], brought: Sequence[torch.Tensor], ranks: Sequence[int], collective: str
) -> int:
    """Return how many elements a rank has room for, or gets if a functional collective makes the room."""
    results = list(_list_tensors([given.get(name) for name in GIVEN_BACK[collective]]))
    elements = sum(int(tensor.numel()) for tensor in results or brought)
    if results:
        return elements
    return elements * len(ranks) if collective == "all_gather" else elements // len(ranks)


def _name_dtype(tensor: torch.Tensor) -> str:
    return str(tensor.dtype).replace("torch.", "")


def _describe_options(given: Mapping[str, Any], ranks: Sequence[int]) -> str:
    """Return the operation and the source of a collective in words, as the end of its name."""
    text = ""
    if "reduce_op" in given:
        operation = given["reduce_op"]
        word = operation if isinstance(operation, str) else torch.distributed.ReduceOp.RedOpType(operation.op()).name
        text += f'("{word.lower()}")'
    root = given.get("root_rank", given.get("src"))
    if root is not None:
        text += f" with root {ranks[root]}"
    return text


def _describe_tensors(tensors: Sequence[torch.Tensor]) -> str:
    if not tensors:
        return ""
    shown = f"{_name_dtype(tensors[0])} of shape {tuple(tensors[0].shape)}"
    return shown if len(tensors) == 1 else f"{len(tensors)} tensors, the first {shown}"


def _find_place() -> str:
    """Return the innermost line that is the user's. If torch was called without one, return torch's outermost line."""
    found = sys._getframe()
    while found.f_back is not None and found.f_code.co_filename.startswith(OURS):
        found = found.f_back
    frame: FrameType | None = found
    while frame is not None and not frame.f_code.co_filename.startswith(OURS):
        found = frame
        if not _is_foreign(frame.f_code.co_filename):
            break
        frame = frame.f_back
    return f"{Path(found.f_code.co_filename).name}:{found.f_lineno}"


def _is_foreign(file: str) -> bool:
    # Packages are in a folder of Python's own library.
    return file.startswith((TORCHS, "<")) or (file.startswith(PYTHONS) and "site-packages" not in file)
