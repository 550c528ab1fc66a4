"""Make a call in several processes, or on several devices, which share its gradients.

Each process has its part of each gradient that is split along an axis (`Gradient.sharded`), and a copy of each other
gradient. A :class:`Team` keeps the processes of a framework that needs several. They end with the host process, however
that ends: a thread of each waits for the end of its pipe.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import traceback
from dataclasses import replace
from pathlib import Path
from typing import IO, Any, Callable, Mapping, Sequence

import numpy as np

from . import wire
from .arrays import INFINITY_BITS
from .contract import Array, Call, FrameworkRaised, Gradient, Reply, Unsupported
from .host import answer_by

__all__ = ["Team", "compare_copies", "cut_array", "cut_call", "find_part", "get_world", "join_replies", "serve"]

#: If a process raises, the others may wait for it forever. They get this many seconds.
PATIENCE = 5.0

#: A function that answers a call in one of several processes. The call has whole gradients, and the reply has the parts
#: of this process.
Answer = Callable[[Call], Reply]


def get_world(call: Call) -> int:
    """Return the number of processes that make a call together.

    Raises
    ------
    Unsupported
        If the call does not say it.
    """
    if "world" not in call.options:
        message = "it makes calls in several processes, and the call does not say in how many"
        raise Unsupported(message)
    return int(call.options["world"])


def find_part(length: int, world: int, rank: int) -> slice:
    """Return the rows of a process. All have the same number, but the last ones may have fewer, or none."""
    size = -(-length // world)
    return slice(min(rank * size, length), min((rank + 1) * size, length))


def cut_array(array: Array, axis: int, world: int, rank: int) -> Array:
    """Return the part of an array that a process has."""
    part = array.bits()[(slice(None),) * axis + (find_part(array.shape[axis], world, rank),)]
    return Array(array.dtype, part.shape, part.tobytes())


def cut_call(call: Call, rank: int) -> Call:
    """Return the call with the parts of one process. `Gradient.sharded` still names the axis of each part."""
    world = get_world(call)

    def cut(gradient: Gradient) -> Gradient:
        if gradient.array is None or gradient.sharded is None:
            return gradient
        return replace(gradient, array=cut_array(gradient.array, gradient.sharded, world, rank))

    return replace(call, gradients=tuple(map(cut, call.gradients)))


def join_replies(call: Call, replies: Sequence[Reply]) -> Reply:
    """Return one reply with the whole results, and with the differences between the processes.

    The gradients and inputs of each reply are the parts of one process. Copies, and norms, must have the same bits in
    all processes.
    """
    first = replies[0]
    counts = [len(reply.gradients) for reply in replies]
    if first.malformed is not None or set(counts) != {len(call.gradients)}:
        return first
    apart = list(_compare_norms([reply.norm for reply in replies]))
    results: list[Array | None] = []
    for place, gradient in enumerate(call.gradients):
        parts = [reply.gradients[place] for reply in replies]
        if gradient.sharded is None:
            results.append(parts[0])
            apart += compare_copies(parts, f"result {place}")
        else:
            try:
                results.append(_join_parts(parts, gradient.sharded))
            except ValueError as error:
                text = f"returned parts that do not fit together as result {place}: {error}"
                return Reply((), malformed=text)
    warnings = tuple(dict.fromkeys(text for reply in replies for text in reply.warnings))
    return replace(
        first,
        gradients=tuple(results),
        inputs=_join_inputs(call, replies),
        same_object=None,
        warnings=warnings,
        apart=tuple(apart),
    )


def _join_inputs(call: Call, replies: Sequence[Reply]) -> tuple[Array | None, ...] | None:
    if any(reply.inputs is None for reply in replies):
        return None
    columns = zip(call.gradients, *(reply.inputs or () for reply in replies))
    return tuple(
        parts[0] if gradient.sharded is None else _join_parts(parts, gradient.sharded) for gradient, *parts in columns
    )


def _join_parts(parts: Sequence[Array | None], axis: int) -> Array | None:
    """Return the array that the parts form. None stands for no result, which all processes must agree on.

    Raises
    ------
    ValueError
        If the parts differ in more than their length along the axis.
    """
    arrays = [part for part in parts if part is not None]
    if not arrays:
        return None
    if len(arrays) < len(parts) or len({array.dtype for array in arrays}) > 1:
        message = f"their dtypes are {[None if part is None else part.dtype for part in parts]}"
        raise ValueError(message)
    whole = np.concatenate([array.bits() for array in arrays], axis)
    return Array(arrays[0].dtype, whole.shape, whole.tobytes())


def compare_copies(copies: Sequence[Array | None], name: str) -> list[str]:
    """Return a sentence for `Reply.apart` if a process has another copy than the first one."""
    settled = [_settle_nans(copy) for copy in copies]
    other = next((rank for rank, copy in enumerate(settled) if copy != settled[0]), None)
    return [] if other is None else [f"returned another {name} in process {other} than in process 0"]


def _compare_norms(norms: Sequence[Array | None]) -> list[str]:
    settled = [_settle_nans(norm) for norm in norms]
    other = next((rank for rank, norm in enumerate(settled) if norm != settled[0]), None)
    if other is None:
        return []
    shown = [_show_norm(norms[0]), _show_norm(norms[other]), other]
    return ["returned the norm {} in process 0 and {} in process {}".format(*shown)]


def _show_norm(norm: Array | None) -> str:
    if norm is None:
        return "None"
    return norm.dtype if norm.dtype == "bfloat16" else str(norm.numpy().tolist())


def _settle_nans(array: Array | None) -> Array | None:
    """Return the array with the same bits for all NaNs, because their bits have no meaning."""
    if array is None or array.dtype not in INFINITY_BITS:
        return array
    bits = array.bits()
    infinity = bits.dtype.type(INFINITY_BITS[array.dtype])
    unsigned = bits & bits.dtype.type(2 ** (8 * bits.itemsize - 1) - 1)
    bits[unsigned > infinity] = infinity + 1
    return Array(array.dtype, array.shape, bits.tobytes())


class Team:
    """Processes that make each call together.

    `module` has a function `join(rank, world, folder)`, which makes the calling process a member of the group, and
    returns the function that answers its calls. The processes can find each other by files in `folder`.
    """

    def __init__(self, module: str, world: int) -> None:
        self.module, self.world = module, world
        self._launcher: subprocess.Popen[bytes] | None = None
        self._pipes: list[IO[bytes]] = []
        self._answers: queue.Queue[tuple[int, dict[str, Any]]] = queue.Queue()
        self._folder = ""
        #: The numbers of the processes.
        self.pids: list[int] = []

    def call(self, call: Call) -> Reply:
        """Return the joined replies of all processes.

        Raises
        ------
        FrameworkRaised
            If the framework raised in one of the processes, or ended it.
        Unsupported
            If the framework cannot make the call.
        RuntimeError
            If the adapter failed in one of the processes.
        """
        if self._launcher is None:
            self._start()
        line = (wire.dumps(wire.encode_call(call, 1)) + "\n").encode()
        for pipe in self._pipes:
            # A process that has ended answers by its end.
            with contextlib.suppress(BrokenPipeError):
                pipe.write(line)
                pipe.flush()
        answers = self._gather()
        kinds = {answer["message"] for answer in answers.values()}
        if kinds == {"reply"}:
            return join_replies(call, [wire.decode_reply(answers[rank]) for rank in range(self.world)])
        if len(answers) < self.world or kinds not in ({"raised"}, {"unsupported"}):
            # The processes no longer agree on which call comes next.
            self.stop()
        for answer in answers.values():
            if answer["message"] == "mistake":
                raise RuntimeError(answer["text"])
            if answer["message"] == "unsupported":
                raise Unsupported(answer["text"], answer["kind"])
        raise FrameworkRaised(*self._describe_error(answers))

    def stop(self) -> None:
        """End the processes. The next call starts new ones."""
        if self._launcher is None:
            return
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        self._launcher.kill()
        self._launcher.wait()
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._launcher, self._pipes, self.pids = None, [], []

    def _start(self) -> None:
        self._answers = queue.Queue()
        self._folder = tempfile.mkdtemp(prefix="gradclip-")
        calls, answers = ([os.pipe() for _ in range(self.world)] for _ in range(2))
        theirs = [end for (call, _), (_, answer) in zip(calls, answers) for end in (call, answer)]
        launcher = str(Path(__file__).with_name("launch.py"))
        words = [sys.executable, launcher, "--process", self.module, self._folder, *map(str, theirs)]
        self._launcher = subprocess.Popen(words, pass_fds=theirs)
        for end in theirs:
            os.close(end)
        self._pipes = [os.fdopen(end, "wb") for _, end in calls]
        for rank, (end, _) in enumerate(answers):
            threading.Thread(target=_read_answers, args=(end, rank, self._answers), daemon=True).start()
        joined = self._gather()
        self.pids = [answer["pid"] for answer in joined.values() if answer["message"] == "joined"]
        if len(self.pids) < self.world:
            self.stop()
            message = "a process of the group ended before it had joined"
            raise RuntimeError(message)

    def _gather(self) -> dict[int, dict[str, Any]]:
        """Return the answers of the processes. If one of them is no reply, do not wait long for the others."""
        answers: dict[int, dict[str, Any]] = {}
        while len(answers) < self.world:
            is_broken = any(answer["message"] not in ("reply", "joined") for answer in answers.values())
            try:
                rank, answer = self._answers.get(timeout=PATIENCE if is_broken else None)
            except queue.Empty:
                break
            answers.setdefault(rank, answer)
        return answers

    def _describe_error(self, answers: Mapping[int, Mapping[str, Any]]) -> tuple[str, str]:
        """Return the kind and the text of the first error, and what became of another process that had none."""
        rank = min(rank for rank, answer in answers.items() if answer["message"] == "raised")
        text = answers[rank]["text"]
        others = [other for other in range(self.world) if answers.get(other, {}).get("message") != "raised"]
        if others:
            what = "returned" if others[0] in answers else "waits forever"
            text = f"{text} (in process {rank}; process {others[0]} {what})"
        return answers[rank]["kind"], text


def _read_answers(end: int, rank: int, answers: queue.Queue[tuple[int, dict[str, Any]]]) -> None:
    with os.fdopen(end, "rb") as lines:
        for line in lines:
            answers.put((rank, json.loads(line.decode())))
    answers.put((rank, {"message": "raised", "kind": "ProcessDied", "text": "the process ended"}))


def serve(arguments: Sequence[str]) -> int:
    """Import a module, and become several processes that answer the calls of a :class:`Team`.

    The processes are forks of this one, because each import of a framework takes seconds.
    """
    name, folder, *ends = arguments
    module = importlib.import_module(name)
    numbers = list(map(int, ends))
    pairs = list(zip(numbers[::2], numbers[1::2]))
    for rank in range(len(pairs)):
        if os.fork() == 0:
            for end in (end for other, pair in enumerate(pairs) if other != rank for end in pair):
                os.close(end)
            _serve_calls(module, rank, len(pairs), folder, pairs[rank])
    for end in numbers:
        os.close(end)
    # Wait for the processes, which would become orphans.
    with contextlib.suppress(ChildProcessError):
        while True:
            os.wait()
    return 0


def _serve_calls(module: Any, rank: int, world: int, folder: str, ends: tuple[int, int]) -> None:
    """Answer calls until the pipe is closed. This never returns."""
    try:
        messages_in, messages_out = os.fdopen(ends[0], "rb"), os.fdopen(ends[1], "w", encoding="utf-8")
        lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=_read_lines, args=(messages_in, lines, folder), daemon=True).start()
        answer = module.join(rank, world, folder)
        message: dict[str, Any] = {"message": "joined", "pid": os.getpid()}
        while True:
            messages_out.write(wire.dumps(message) + "\n")
            messages_out.flush()
            message = answer_by(answer, json.loads(lines.get().decode()))
    except BaseException:  # noqa: BLE001 - this process must not go on as its parent
        traceback.print_exc()
    finally:
        os._exit(1)


def _read_lines(messages: IO[bytes], lines: queue.Queue[bytes], folder: str) -> None:
    """Queue the calls. At the end of the pipe, end this process, which may wait for others in a framework's call."""
    try:
        for line in messages:
            lines.put(line)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        os._exit(0)
