"""Define the options of all verbs that run adapters: which adapters, in which Python, and how they start."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from gradclip_adapters import registry
from gradclip_adapters.contract import DTYPES, OPERATIONS
from gradclip_adapters.mesh import parse_mesh
from gradclip_adapters.operations import find_operation
from gradclip_reports.progress import say_line

from ..cases.patterns import suggest_known
from ..judge.model import Connection, StartError
from ..known.claims import load_claims
from ..known.failures import load_known
from ..run.environments.folders import EnvironmentProblem
from ..run.environments.making import make_environment
from ..run.environments.recipes import (
    choose_version,
    find_recipe,
    is_framework_here,
    list_versions,
    matches_version,
    split_version,
)
from ..run.host_process import CASE_SECONDS, HostProcess, build_host_command
from ..run.isolation import PlainOptions, connect_named_function, parse_size
from ..run.plan import Selection


def complete_target(context: click.Context, parameter: click.Parameter, begun: str) -> list[CompletionItem]:
    """Return the adapters whose names begin with the typed text, for a shell's completion. If none, ask for files.

    After a name and the sign `@`, return the known versions.
    """
    del context, parameter
    adapter, sign, _ = begun.partition("@")
    known = [f"{adapter}@{one}" for one in list_versions(adapter)] if sign else sorted(registry.list_installed())
    names = [CompletionItem(name) for name in known if name.startswith(begun)]
    return names or [CompletionItem(begun, type="file")]


@dataclass(frozen=True)
class Target:
    """One adapter, and a function that starts its host."""

    name: str
    #: A function that takes the time limit of a case, and starts a host.
    start: Callable[[float], Connection]
    #: The version of the framework, or its beginning, if the user asked for one.
    version: str = ""

    @property
    def label(self) -> str:
        """The adapter's name with the version, such as `optax@0.1.9`."""
        return f"{self.name}@{self.version}" if self.version else self.name

    def connect(self, timeout: float = CASE_SECONDS) -> Connection:
        """Start a host. The time limit of a case also applies to calls before the cases.

        Raises
        ------
        StartError
            If the host does not start, or if its framework has another version than the user asked for.
        """
        connection = self.start(timeout)
        found = connection.description.version
        if self.version and not matches_version(self.version, found):
            connection.close()
            msg = f"this Python has {connection.description.heading}, not version {self.version}"
            raise StartError("other-version", msg)
        return connection


@dataclass(frozen=True)
class TargetOptions:
    """The options that say what to call, where to find a framework, and what its process may use."""

    operation: str | None = None
    dtypes: tuple[str, ...] = ()
    pythons: tuple[str, ...] = ()
    command: str | None = None
    venv: bool = False
    device: str | None = None
    memory: int | None = None
    mesh: Mapping[str, int] | None = None
    arrays: str = "numpy"
    partial: bool = False

    def select_cells(self, rules: tuple[str, ...] = ()) -> Selection:
        """Return the cells of these rules, or of all rules, for the operation and the dtypes."""
        return Selection((self.operation,) if self.operation else (), rules, self.dtypes)


# Before click 8.2 the class is not generic.
class OperationChoice(click.Choice):  # type: ignore[type-arg]
    """An operation. A user may write its name as it stands in the names of rules."""

    def __init__(self) -> None:
        super().__init__(list(OPERATIONS))

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the operation's full name."""
        operation = find_operation(str(value))
        return super().convert(operation.function if operation else value, param, ctx)


def parse_with(parse: Callable[[str], Any]) -> Callable[[click.Context, click.Parameter, str | None], Any]:
    """Return a callback of click that parses the value of an option, if there is one. A ValueError is wrong usage."""

    def parse_value(context: click.Context, parameter: click.Parameter, value: str | None) -> Any:
        try:
            return None if value is None else parse(value)
        except ValueError as error:
            raise click.BadParameter(str(error), context, parameter) from error

    return parse_value


_OPTIONS = (
    click.option(
        "--op",
        "operation",
        type=OperationChoice(),
        metavar="OPERATION",
        help=f"Only this operation: {', '.join(OPERATIONS)}.",
    ),
    click.option("--dtype", "dtypes", multiple=True, type=click.Choice(list(DTYPES)), help="Only these dtypes."),
    click.option(
        "--python",
        "pythons",
        metavar="[ADAPTER=]EXE",
        multiple=True,
        help="The Python that has the framework. For several adapters, repeat it with names: torch=/path/python.",
    ),
    click.option(
        "--command",
        metavar="CMD",
        help='A command that starts a host, such as "node my_adapter.js" or "ssh gpu1 my_host".',
    ),
    click.option("--venv", is_flag=True, help="Make (once) a virtual environment for each framework named."),
    click.option("--device", metavar="DEVICE", help='The device on which the named frameworks work: "cuda".'),
    click.option(
        "--memory",
        callback=parse_with(parse_size),
        metavar="SIZE",
        help="Memory that a host may allocate, such as 4G (Linux only).",
    ),
    click.option(
        "--mesh",
        callback=parse_with(parse_mesh),
        metavar="AXIS=SIZE,...",
        help="Call MODULE:FN on each rank of this mesh, such as replica=2,shard=2.",
    ),
    click.option(
        "--arrays",
        type=click.Choice(registry.ARRAYS),
        default="numpy",
        help="With --mesh: MODULE:FN gets arrays of NumPy, or parameters of torch with real torch.distributed.",
    ),
    click.option("--partial", is_flag=True, help="With --mesh: MODULE:FN takes gradients that are not yet summed."),
)


def pass_together(
    kind: Any, argument: str, options: Sequence[Callable[..., Any]]
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that adds options to a command, which gets them as one argument, a dataclass of this kind."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def run_command(*arguments: Any, **given: Any) -> Any:
            together = kind(**{name: given.pop(name) for name in kind.__dataclass_fields__})
            return function(*arguments, **{argument: together}, **given)

        decorated: Callable[..., Any] = run_command
        for option in reversed(options):
            decorated = option(decorated)
        return decorated

    return decorate


#: Adds these options to a command, which gets them as one argument `options`.
add_target_options = pass_together(TargetOptions, "options", _OPTIONS)


def choose_targets(names: Sequence[str], options: TargetOptions) -> list[Target]:
    """Return the adapters that were named, or all adapters whose framework is installed here.

    Raises
    ------
    click.UsageError
        If a name is unknown, options contradict each other, or `--command` is empty.
    """
    if options.device is not None and not names:
        msg = "--device needs the names of adapters, because many frameworks have no choice of devices."
        raise click.UsageError(msg)
    if sum((bool(options.pythons), options.command is not None, options.venv)) > 1:
        msg = "--python, --command and --venv exclude each other."
        raise click.UsageError(msg)
    if options.command is not None:
        _refuse_empty_command(options.command)
    chosen = list(dict.fromkeys(names)) or _choose_unnamed(options)
    for name in chosen:
        _refuse_unknown_target(name, options)
        _refuse_malformed_files(split_version(name)[0])
    by_name, general = _split_pythons(options.pythons, chosen)
    is_named = bool(names) or options.command is None
    targets = []
    for name in chosen:
        adapter, version = split_version(choose_version(name) if options.venv else name)
        start = _make_starter(name, by_name.get(name, general), options, is_named=is_named)
        targets.append(Target(adapter, start, version))
    return targets


def _choose_unnamed(options: TargetOptions) -> list[str]:
    """Return the adapters to check if none is named."""
    if options.command is None:
        return [name for name in registry.list_installed() if is_framework_here(name)]
    # A command that is a whole host, such as "node my_adapter.js", is called by its file.
    words = build_host_command(command=options.command)
    return [next((word for word in reversed(words) if Path(word).suffix and os.path.isfile(Path(word))), words[-1])]


def _refuse_unknown_target(name: str, options: TargetOptions) -> None:
    kind = registry.find_kind(name)
    if kind == "function" and options.device is not None:
        msg = f"{name!r} is a plain function, which has no choice of devices: leave out --device."
        raise click.UsageError(msg)
    if kind == "function" and options.operation is None:
        msg = f"{name!r} is a plain function: say with --op which operation it performs ({', '.join(OPERATIONS)})."
        raise click.UsageError(msg)
    if kind != "function" and options.mesh is not None:
        msg = f"--mesh is for a function MODULE:FN; {name!r} is an adapter, and its engines have meshes of their own."
        raise click.UsageError(msg)
    if options.arrays != "numpy" and options.mesh is None:
        msg = f"--arrays {options.arrays} needs --mesh, such as --mesh replica=2,shard=2."
        raise click.UsageError(msg)
    if options.partial and options.mesh is None:
        msg = "--partial needs --mesh, such as --mesh replica=2,shard=2."
        raise click.UsageError(msg)
    # A launcher may have adapters and files that are missing on this machine.
    if options.command is not None:
        return
    known = registry.list_installed()
    if kind == "name" and split_version(name)[0] not in known:
        raise click.UsageError(_describe_unknown_adapter(name, sorted(known)))
    if kind == "file" and not os.path.isfile(Path(name)):
        msg = f"There is no file {name!r} (looked in {Path.cwd()})."
        raise click.UsageError(msg)


def _describe_unknown_adapter(name: str, known: Sequence[str]) -> str:
    adapter, sign, version = name.partition("@")
    if sign and adapter in known:
        versions = list_versions(adapter)
        listed = f" Known versions: {', '.join(versions)}." if versions else ""
        return f"{version!r} is no version, or beginning of one, of {adapter}.{listed}"
    text = f"There is no adapter {name!r}."
    if f"reference-{name}" in known:
        return (
            f"{text} reference-{name} checks this project's own functions on {name}. To check functions of {name} or "
            "of a library on it, write an adapter (a Python file, see docs/tutorial/adapter.md) and name the file."
        )
    if os.path.isdir(Path(name)):
        return f"{name!r} is a folder: name an adapter's Python file in it. `gradclip summary {name}` shows records."
    if os.path.isfile(Path(name)):
        return f"{name!r} is no adapter, whose name would end in .py. `gradclip summary {name}` shows a record."
    hint = suggest_known(name, known)
    return f"{text}{hint} `gradclip adapters` lists all. A file ends in .py, a function is module:name."


def _refuse_empty_command(command: str) -> None:
    try:
        words = build_host_command(command=command)
    except ValueError as error:
        msg = f"--command {command!r} cannot be split into words: {error}."
        raise click.UsageError(msg) from error
    if not words:
        msg = "--command is empty: name a launcher of a host process."
        raise click.UsageError(msg)


def _refuse_malformed_files(name: str) -> None:
    """Refuse files of known failures and claims that cannot be read, before anything runs."""
    try:
        load_claims(name)
        load_known(name)
    except (ValueError, OSError) as error:
        raise click.UsageError(str(error)) from error


def _split_pythons(pythons: Sequence[str], chosen: Sequence[str]) -> tuple[dict[str, str], str | None]:
    by_name: dict[str, str] = {}
    general: str | None = None
    for value in pythons:
        name, equals, executable = value.partition("=")
        if equals and name in chosen:
            by_name[name] = executable
        elif general is None:
            general = value
        else:
            msg = f"--python is given twice without an adapter's name: {general!r} and {value!r}. Write ADAPTER=EXE."
            raise click.UsageError(msg)
    return by_name, general


def _make_starter(
    name: str, python: str | None, options: TargetOptions, *, is_named: bool
) -> Callable[[float], Connection]:
    """Return a function that starts a host. A command gets the name of the adapter only if the user has given it."""
    is_function = registry.find_kind(name) == "function"
    adapter, _ = split_version(name)
    limits = ("--device", options.device), ("--memory", options.memory)
    more = [word for option, value in limits if value is not None for word in (option, str(value))]

    def start(timeout: float) -> Connection:
        executable = python
        if options.venv:
            try:
                executable = make_environment(name)
            except EnvironmentProblem as problem:
                raise StartError("no-host", str(problem)) from problem
        command = build_host_command(executable, options.command)
        if is_function:
            plain_options = PlainOptions(
                str(options.operation),
                options.dtypes,
                memory=options.memory,
                mesh=options.mesh,
                arrays=options.arrays,
                partial=options.partial,
            )
            return connect_named_function(command, name, plain_options, timeout)
        return HostProcess([*command, *([adapter] if is_named else []), *more], call_seconds=timeout)

    return start


def say_that_it_does_not_start(target: Target, error: StartError) -> None:
    """Print why an adapter does not start, and how to get its framework."""
    text = f"{target.label} does not start ({error.kind}): {error}"
    if error.kind in ("missing-framework", "other-version"):
        recipe = find_recipe(target.label)
        venv = "--venv makes an environment for it; " if recipe is not None and recipe.requirements else ""
        text = f"{text.rstrip('.')}. {venv}--python EXE names a Python that has it."
    say_line(text)
