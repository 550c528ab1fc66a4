"""Run a function on all ranks of a mesh in one process, with collectives that see at once when they do not match.

Each rank runs in a thread of its own, but only one thread runs at a time: a rank runs until it enters a collective or
returns. When no rank can run, each collective that all ranks of its group have entered takes place. If there is none,
the ranks would wait for ever. The report names the ranks, the collectives and the lines that entered them.

The order in which numbers are added changes from collective to collective, and depends on the seed alone. Groups along
the same axes add in the same order, as parallel groups of a cluster do.
"""

from __future__ import annotations

import contextvars
import copy
import random
import sys
import threading
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from .matching import Entry, GivenUp, Outcome, describe_ranks, find_matching
from .mesh import Mesh

__all__ = ["RankMesh", "simulate"]

#: The operations of :meth:`RankMesh.all_reduce`. A NaN among the numbers makes each of them NaN.
OPERATIONS: dict[str, Callable[[Any, Any], Any]] = {"sum": np.add, "max": np.maximum, "min": np.minimum}

#: The seconds that a thread gets to end after its collective was given up.
ENDING_SECONDS = 1.0


@dataclass(frozen=True)
class Request(Entry):
    """A collective that a rank has entered, and the value that it brought."""

    value: Any = None
    operation: str = ""
    source: int = 0


class RankMesh:
    """The mesh as one rank sees it: who it is, and the collectives that it shares with other ranks.

    Attributes
    ----------
    rank, size
        The number of this rank, and the number of all ranks.
    axes
        The size of each axis by its name.
    coordinates
        The coordinate of this rank on each axis.
    """

    def __init__(self, mesh: Mesh, rank: int, enter: Callable[[int, Request], Any]) -> None:
        self.rank = rank
        self.size = mesh.size
        self.axes: Mapping[str, int] = dict(mesh.axes)
        self.coordinates: Mapping[str, int] = mesh.find_coordinates(rank)
        self._mesh = mesh
        self._enter = enter

    def all_reduce(self, x: Any, op: str = "sum", axes: Sequence[str] | str | None = None) -> Any:
        """Return the sum, maximum or minimum of the values of all ranks of the group, element by element.

        Parameters
        ----------
        x
            A number, or an array of the same shape and dtype on each rank. It is not changed.
        op
            "sum", "max" or "min". The sum is rounded to the dtype after each addition, in any order.
        axes
            The axes of the mesh over which to reduce; all axes by default.

        Returns
        -------
        number or array
            The same bits on all ranks of the group.

        Raises
        ------
        ValueError
            If there is no such operation or axis.
        """
        if not isinstance(op, str) or op not in OPERATIONS:
            message = f"there is no operation {op!r}: choose from {', '.join(OPERATIONS)}"
            raise ValueError(message)
        return self._request(f'all_reduce("{op}")', x, axes, operation=op)

    def all_gather(self, x: Any, axes: Sequence[str] | str | None = None) -> list[Any]:
        """Return the values of all ranks of the group, in the order of their numbers.

        Parameters
        ----------
        x
            A number, an array of the same shape and dtype on each rank, or any other object.
        axes
            The axes of the mesh over which to gather; all axes by default.

        Returns
        -------
        list
            One value for each rank of the group.

        Raises
        ------
        ValueError
            If there is no such axis.
        """
        gathered: list[Any] = self._request("all_gather", x, axes)
        return gathered

    def broadcast(self, x: Any, source: int = 0, axes: Sequence[str] | str | None = None) -> Any:
        """Return the value of one rank of the group.

        Parameters
        ----------
        x
            The value of this rank; the other ranks may pass None.
        source
            The position of that rank in its group; with all axes, this is its number.
        axes
            The axes of the mesh over which to send; all axes by default.

        Returns
        -------
        number or array
            The value of the source.

        Raises
        ------
        ValueError
            If there is no such axis, or if the group has no such rank.
        """
        group = self._mesh.find_group(self.rank, self._check_axes(axes))
        if not isinstance(source, (int, np.integer)) or not 0 <= source < len(group):
            message = f"the group has {len(group)} ranks, and no rank {source!r:.40}"
            raise ValueError(message)
        value = x if group[source] == self.rank else None
        return self._request(f"broadcast from {source}", value, axes, source=source)

    def count_copies(self, placement: Mapping[str, Any]) -> int:
        """Return how many ranks have the same copy of a gradient with these placements.

        Parameters
        ----------
        placement
            The placement by the name of each axis: "replicated", "owned", "partial" or the number of the sharded axis.

        Returns
        -------
        int
            The product of the sizes of the axes along which the gradient is replicated.

        Raises
        ------
        ValueError
            If the mesh has no such axis.
        """
        self._check_axes(list(placement))
        copies = 1
        for name, size in self.axes.items():
            copies *= size if placement.get(name, "replicated") == "replicated" else 1
        return copies

    def _check_axes(self, axes: Sequence[str] | str | None) -> list[str]:
        """Return the names of axes in the order of the mesh, or all of them for None."""
        if axes is None:
            return list(self.axes)
        if not isinstance(axes, (str, list, tuple, set, frozenset, dict)):
            message = f"axes are the names of axes, such as ({next(iter(self.axes))!r},), and not {axes!r:.40}"
            raise TypeError(message)
        names = [axes] if isinstance(axes, str) else list(axes)
        unknown = [name for name in names if name not in self.axes]
        if unknown:
            message = f"the mesh has no axis {unknown[0]!r}; it has {', '.join(map(repr, self.axes))}"
            raise ValueError(message)
        return [name for name in self.axes if name in names]

    def _request(
        self, kind: str, value: Any, axes: Sequence[str] | str | None, operation: str = "", source: int = 0
    ) -> Any:
        names = self._check_axes(axes)
        if len(names) < len(self.axes):
            kind += f" over {', '.join(names) or 'no axis'}"
        if operation and not _holds_numbers(value):
            message = f"{kind} takes a number or an array of numbers, and not {value!r:.40}"
            raise TypeError(message)
        # A copy, because the caller may change the array while other ranks have yet to enter.
        is_array = not _is_number(value) and not isinstance(value, np.generic) and _holds_numbers(value)
        value = np.array(value) if is_array else copy.deepcopy(value)
        form = _describe_form(value)
        shown = form or (
            "nothing" if value is None else "a number" if _is_number(value) else f"a {type(value).__name__}"
        )
        group = self._mesh.find_group(self.rank, names)
        request = Request(kind, group, _find_place(), form, shown, value=value, operation=operation, source=source)
        return self._enter(self.rank, request)


def _is_number(value: Any) -> bool:
    """Return whether a value is a number of Python, which has no dtype of its own. A `float64` is a float."""
    return isinstance(value, (bool, int, float))


def _holds_numbers(value: Any) -> bool:
    try:
        # The other kinds of dtypes hold numbers. That of bfloat16 is "V".
        return np.asarray(value).dtype.kind not in "OSUMm"
    except ValueError:
        # The value is a list of lists that differ in length.
        return False


def _describe_form(value: Any) -> str:
    """Return the dtype and shape of an array. They are empty for a number of Python, and for other objects."""
    if _is_number(value) or not isinstance(value, (np.ndarray, np.generic)):
        return ""
    return f"{value.dtype.name} of shape {value.shape}"


def _find_place() -> str:
    """Return the line of the user's file that entered a collective."""
    frame = sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"


def simulate(
    mesh: Mesh, functions: Sequence[Callable[[RankMesh], Any]], seed: int = 0
) -> tuple[list[Outcome], str | None]:
    """Call one function for each rank, and return what became of each rank.

    Parameters
    ----------
    mesh
        The mesh.
    functions
        The function of each rank, called with the mesh as this rank sees it.
    seed
        The seed of the orders in which numbers are added.

    Returns
    -------
    outcomes : list of Outcome
        One for each rank.
    mismatch : str or None
        A clause that says which ranks wait in which collectives, or None if each collective took place on all ranks.
    """
    return _Simulation(mesh, functions, seed).run()


class _Simulation:
    def __init__(self, mesh: Mesh, functions: Sequence[Callable[[RankMesh], Any]], seed: int) -> None:
        self._seed = seed
        #: How many collectives each group has had.
        self._times: Counter[tuple[int, ...]] = Counter()
        self._control = threading.Semaphore(0)
        self._may_run = [threading.Semaphore(0) for _ in functions]
        self._entered: dict[int, Request] = {}
        self._results: dict[int, Any] = {}
        self._outcomes: dict[int, Outcome] = {}
        self._is_given_up = False
        self._threads: list[threading.Thread] = []
        for rank, function in enumerate(functions):
            # NumPy keeps its error state in the context.
            context = contextvars.copy_context()
            work = (rank, function, RankMesh(mesh, rank, self._enter))
            thread = threading.Thread(target=context.run, args=(self._work, *work), daemon=True)
            self._threads.append(thread)

    def run(self) -> tuple[list[Outcome], str | None]:
        mismatch = None
        for thread in self._threads:
            thread.start()
        runnable = list(range(len(self._threads)))
        try:
            while True:
                for rank in runnable:
                    self._may_run[rank].release()
                    self._control.acquire()
                if not self._entered:
                    break
                runnable, mismatch = self._take_place()
                if mismatch is not None:
                    break
        finally:
            self._give_up()
        return [self._outcomes[rank] for rank in range(len(self._threads))], mismatch

    def _work(self, rank: int, function: Callable[[RankMesh], Any], view: RankMesh) -> None:
        """Run the function of one rank. This is the body of its thread."""
        self._may_run[rank].acquire()
        try:
            outcome = Outcome(function(view))
        except GivenUp:
            return
        except BaseException as error:  # noqa: BLE001 - the function may raise anything, also SystemExit
            outcome = Outcome(error=error)
        if not self._is_given_up:
            self._outcomes[rank] = outcome
        self._control.release()

    def _enter(self, rank: int, request: Request) -> Any:
        """Wait until the collective has taken place, and return its result on this rank."""
        if self._is_given_up:
            raise GivenUp
        if threading.current_thread() is not self._threads[rank]:
            message = f"rank {rank} entered a collective from another thread than the one that called the function"
            raise RuntimeError(message)
        self._entered[rank] = request
        self._control.release()
        self._may_run[rank].acquire()
        if self._is_given_up:
            raise GivenUp
        return self._results.pop(rank)

    def _take_place(self) -> tuple[list[int], str | None]:
        """Let each collective take place whose group has entered. Return the ranks that go on, or the mismatch."""
        runnable: list[int] = []
        for group in list(find_matching(self._entered)):
            self._results.update(self._combine({rank: self._entered.pop(rank) for rank in group}))
            runnable += group
        return (sorted(runnable), None) if runnable else ([], self._describe())

    def _combine(self, requests: Mapping[int, Request]) -> dict[int, Any]:
        some = next(iter(requests.values()))
        if some.kind.startswith("broadcast"):
            sent = requests[some.group[some.source]].value
            return {rank: _copy(sent) for rank in requests}
        if not some.operation:
            return {rank: [_copy(request.value) for request in requests.values()] for rank in requests}
        values = [request.value for request in requests.values()]
        self._times[some.group] += 1
        # The kind names the axes.
        order = random.Random(f"{self._seed} {some.kind} {self._times[some.group]}")
        total = _reduce(OPERATIONS[some.operation], values, order)
        return {rank: _convert_like(total, each.value) for rank, each in requests.items()}

    def _describe(self) -> str:
        ended = {
            rank: "returned" if outcome.error is None else f"raised {type(outcome.error).__name__}"
            for rank, outcome in self._outcomes.items()
        }
        return describe_ranks(self._entered, ended)

    def _give_up(self) -> None:
        """End the ranks that would wait for ever."""
        self._is_given_up = True
        for rank, request in self._entered.items():
            self._outcomes[rank] = Outcome(waits=request)
        for semaphore in self._may_run:
            semaphore.release()
        for thread in self._threads:
            thread.join(ENDING_SECONDS)


def _reduce(combine: Callable[[Any, Any], Any], values: Sequence[Any], order: random.Random) -> np.ndarray[Any, Any]:
    """Combine the values in a random order: one after another, or as a tree."""
    with_dtype = [value for value in values if not _is_number(value)]
    dtype = np.asarray(with_dtype[0]).dtype if with_dtype else np.asarray(sum(values)).dtype
    left = [np.asarray(value, dtype) for value in values]
    order.shuffle(left)
    is_tree = order.random() < 0.5
    with np.errstate(all="ignore"):
        while len(left) > 1:
            combined = combine(left.pop(0), left.pop(0))
            left.insert(len(left) if is_tree else 0, np.asarray(combined, dtype))
    return left[0]


def _convert_like(total: np.ndarray[Any, Any], value: Any) -> Any:
    """Return a result as the kind of value that a rank brought: a number of Python, a scalar or an array of NumPy."""
    if _is_number(value):
        return total.item()
    return total[()] if isinstance(value, np.generic) else total.copy()


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else value
