"""Keep the processes of a framework that makes a call in several of them, which share its gradients (see `mesh`).

They end with the host process, however that ends: a thread of each waits for the end of its pipe.
"""

from __future__ import annotations

import array
import atexit
import contextlib
import importlib
import json
import os
import queue
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import traceback
from pathlib import Path
from typing import IO, Any, Callable, Dict, Mapping, Sequence

from . import wire
from .answers import answer_by
from .contract import Call, FrameworkRaised, Reply, Unsupported
from .matching import GivenUp
from .mesh import join_replies

__all__ = ["PATIENCE", "Answer", "Ask", "Join", "Team", "announce", "end_processes", "find_team", "serve"]

#: If a process raises, the others may wait for it forever. They get this many seconds.
PATIENCE = 5.0

#: The most bytes of a message to the process that starts others, or of its answer.
LONGEST = 1 << 16

#: A function that answers a call in one of several processes. The call has whole gradients, and the reply has the parts
#: of this process.
Answer = Callable[[Call], Reply]

#: A function that sends a message to the :class:`Team` and returns what it answers.
Ask = Callable[[Mapping[str, Any]], Dict[str, Any]]

#: A function that makes the calling process a member of the group, given its rank, their number, a folder by whose
#: files they can find each other, and a function for messages. It returns the function that answers the calls.
Join = Callable[[int, int, str, Ask], Answer]


def _tell_nobody(message: str) -> None:
    del message


#: Tells the suite that processes are "starting" or have "started". The host puts a function here that does.
announce: Callable[[str], None] = _tell_nobody


class Team:
    """Processes that make each call together.

    `module` has a function `load(**settings)`, which returns a :data:`Join`. It is called once, before the processes
    part. Messages are sent to the team, which must be of a class that answers them.
    """

    def __init__(self, module: str, world: int, settings: Mapping[str, Any] | None = None) -> None:
        self.module, self.world, self.settings = module, world, settings or {}
        self._pipes: list[IO[bytes]] = []
        self._readers: list[threading.Thread] = []
        self._answers: queue.Queue[tuple[int, dict[str, Any]]] = queue.Queue()
        self._folder = ""
        #: The numbers of the processes. There are none before the first call.
        self.pids: list[int] = []

    def call(self, call: Call) -> Reply:
        """Return the joined replies of all processes. The errors are those of :meth:`ask_all`."""
        return join_replies(call, self.ask_all(call))

    def ask_all(self, call: Call) -> list[Reply]:
        """Return the reply of each process.

        Raises
        ------
        FrameworkRaised
            If the framework raised in one of the processes, or ended it.
        Unsupported
            If the framework cannot make the call.
        RuntimeError
            If the adapter failed in one of the processes.
        """
        self.send_call(call)
        answers = self._gather()
        kinds = {answer["message"] for answer in answers.values()}
        if kinds == {"reply"}:
            return [wire.decode_reply(answers[rank], call) for rank in range(self.world)]
        if len(answers) < self.world or kinds not in ({"raised"}, {"unsupported"}):
            # The processes no longer agree on which call comes next.
            self.stop()
        for answer in answers.values():
            if answer["message"] == "mistake":
                raise RuntimeError(answer["text"])
            if answer["message"] == "unsupported":
                raise Unsupported(answer["text"], answer["kind"])
        raise FrameworkRaised(*self._describe_error(answers))

    def send_call(self, call: Call) -> None:
        """Send a call to all processes. Start them if there are none."""
        self.start()
        for rank in range(self.world):
            self.send(rank, wire.encode_call(call, 1))

    def send(self, rank: int, message: Mapping[str, Any]) -> None:
        """Send a message to one process. A process that has ended answers by its end."""
        with contextlib.suppress(BrokenPipeError):
            self._pipes[rank].write((wire.dumps(message) + "\n").encode())
            self._pipes[rank].flush()

    def receive(self, patience: float | None = None) -> tuple[int, dict[str, Any]] | None:
        """Return the rank of the next process that sends a message, and the message. None: there was none in time."""
        try:
            return self._answers.get(timeout=patience)
        except queue.Empty:
            return None

    def stop(self) -> None:
        """End the processes. The next call starts new ones."""
        for pid in self.pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for pipe in self._pipes:
            with contextlib.suppress(OSError):
                pipe.close()
        for reader in self._readers:
            reader.join(PATIENCE)
        _running.discard(self)
        shutil.rmtree(self._folder, ignore_errors=True)
        self._pipes, self._readers, self.pids = [], [], []

    def start(self) -> None:
        """Start the processes if there are none.

        An import of a framework may take longer than the time limit of a call. So the suite is told, and waits.

        Raises
        ------
        RuntimeError
            If one of them does not join the group.
        """
        if self.pids:
            return
        announce("starting")
        try:
            self._start()
        finally:
            announce("started")

    def _start(self) -> None:
        self._answers = queue.Queue()
        self._folder = tempfile.mkdtemp(prefix="gradclip-")
        calls, answers = ([os.pipe() for _ in range(self.world)] for _ in range(2))
        theirs = [end for (call, _), (_, answer) in zip(calls, answers) for end in (call, answer)]
        request = {"module": self.module, "settings": self.settings, "folder": self._folder}
        _running.add(self)
        self.pids = _launch(request, theirs)
        for end in theirs:
            os.close(end)
        self._pipes = [os.fdopen(end, "wb") for _, end in calls]
        for rank, (end, _) in enumerate(answers):
            self._readers.append(threading.Thread(target=_read_answers, args=(end, rank, self._answers), daemon=True))
            self._readers[-1].start()
        joined = self._gather()
        if [answer["message"] for answer in joined.values()] != ["joined"] * self.world:
            self.stop()
            message = "a process of the group ended before it had joined"
            raise RuntimeError(message)

    def _gather(self) -> dict[int, dict[str, Any]]:
        """Return the answers of the processes. If one of them is no reply, do not wait long for the others."""
        answers: dict[int, dict[str, Any]] = {}
        while len(answers) < self.world:
            is_broken = any(answer["message"] not in ("reply", "joined") for answer in answers.values())
            received = self.receive(PATIENCE if is_broken else None)
            if received is None:
                break
            answers.setdefault(*received)
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


#: The teams that :func:`find_team` has made, by their modules, sizes and settings.
_found: dict[str, Team] = {}


def find_team(module: str, world: int, kind: type[Team] = Team, **settings: Any) -> Team:
    """Return a team, which is kept for later calls. `settings` are the arguments of the module's function `load`."""
    return _found.setdefault(json.dumps([module, world, settings]), kind(module, world, settings))


def _read_answers(end: int, rank: int, answers: queue.Queue[tuple[int, dict[str, Any]]]) -> None:
    with os.fdopen(end, "rb") as lines:
        for line in lines:
            answers.put((rank, json.loads(line.decode())))
    answers.put((rank, {"message": "raised", "kind": "ProcessDied", "text": "the process ended"}))


#: The process that starts all others, and the socket to it.
_launcher: tuple[subprocess.Popen[bytes], socket.socket] | None = None

#: The teams that have processes.
_running: set[Team] = set()


@atexit.register
def end_processes() -> None:
    """End the processes of all teams, and the one that starts them."""
    for team in list(_running):
        team.stop()
    _drop_launcher()


def _drop_launcher() -> None:
    """Let the process that starts others end. The processes that it has started end by themselves."""
    global _launcher  # noqa: PLW0603 - see `_launch`
    if _launcher is not None:
        process, connection = _launcher
        connection.close()
        process.wait()
        _launcher = None


def _launch(request: Mapping[str, Any], ends: Sequence[int]) -> list[int]:
    """Start processes that have two ends of pipes each, and return their numbers, or none if that failed."""
    global _launcher  # noqa: PLW0603 - one process imports each framework once for all teams
    if _launcher is None:
        ours, theirs = socket.socketpair()
        words = [sys.executable, str(Path(__file__).with_name("launch.py")), "--process", str(theirs.fileno())]
        with theirs:
            _launcher = subprocess.Popen(words, pass_fds=[theirs.fileno()]), ours
    _, connection = _launcher
    rights = (socket.SOL_SOCKET, socket.SCM_RIGHTS, array.array("i", ends).tobytes())
    pids: list[int] = []
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        connection.sendmsg([json.dumps(request).encode()], [rights])
        pids = json.loads(connection.recv(LONGEST) or b"[]")
    if not pids:
        # An import has ended the process. The next call starts a new one.
        _drop_launcher()
    return pids


def serve(descriptor: str) -> int:
    """Import modules, and become the processes that answer the calls of each :class:`Team`.

    The processes are forks of this one, because each import of a framework takes seconds.
    """
    connection = socket.socket(fileno=int(descriptor))
    # The system forgets processes that have ended, because nobody asks how.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        message, ancillary, *_ = connection.recvmsg(LONGEST, socket.CMSG_SPACE(LONGEST))
        if not message:
            break
        request, ends = json.loads(message.decode()), array.array("i", ancillary[0][2])
        pairs = list(zip(ends[::2], ends[1::2]))
        join = importlib.import_module(request["module"]).load(**request["settings"])
        pids = []
        for rank in range(len(pairs)):
            pids.append(os.fork())
            if not pids[-1]:
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                connection.close()
                for end in (end for other, pair in enumerate(pairs) if other != rank for end in pair):
                    os.close(end)
                _serve_calls(join, rank, len(pairs), request["folder"], pairs[rank])
        for end in ends:
            os.close(end)
        connection.sendall(json.dumps(pids).encode())
    # Wait for the processes, which would become orphans.
    with contextlib.suppress(ChildProcessError):
        os.wait()
    return 0


def _serve_calls(join: Join, rank: int, world: int, folder: str, ends: tuple[int, int]) -> None:
    """Answer calls until the pipe is closed. This never returns."""
    try:
        messages_in, messages_out = os.fdopen(ends[0], "rb"), os.fdopen(ends[1], "w", encoding="utf-8")
        lines: queue.Queue[bytes] = queue.Queue()
        threading.Thread(target=_read_lines, args=(messages_in, lines, folder), daemon=True).start()

        def send(message: Mapping[str, Any]) -> None:
            messages_out.write(wire.dumps(message) + "\n")
            messages_out.flush()

        def ask(message: Mapping[str, Any]) -> dict[str, Any]:
            send(message)
            answer: dict[str, Any] = json.loads(lines.get().decode())
            return answer

        answer = join(rank, world, folder, ask)
        send({"message": "joined"})
        while True:
            call = json.loads(lines.get().decode())
            try:
                message = answer_by(answer, call)
            except GivenUp:
                message = {"message": "given-up"}
            send(message)
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
