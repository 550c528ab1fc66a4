"""Define the answers to a call, the knowledge that the judge uses, and its verdicts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from textwrap import indent
from typing import Any, Protocol

from gradclip_adapters.contract import Array, Call, EntryPoint, Reply
from gradclip_reports.statuses import Status

from ..cases.model import Case
from ..cases.patterns import matches, matches_any
from ..oracle.formula import Formula


@dataclass(frozen=True)
class Replied:
    """The framework returned."""

    reply: Reply


@dataclass(frozen=True)
class Raised:
    """The framework raised."""

    kind: str
    text: str
    inputs: tuple[Array | None, ...] | None = None
    #: The state of the process that the call has changed.
    disturbed: tuple[str, ...] = ()


@dataclass(frozen=True)
class NotSupported:
    """The adapter declares that the call cannot be made. `kind` is one of `gradclip_adapters.contract.LACKS`."""

    text: str
    kind: str = "adapter"


@dataclass(frozen=True)
class Mistaken:
    """The adapter itself raised, outside the framework."""

    text: str


@dataclass(frozen=True)
class Died:
    """The host process ended, or was ended because it sent something other than an answer."""

    text: str


@dataclass(frozen=True)
class TimedOut:
    """No answer came within the time limit, and the host process was ended."""

    seconds: float
    #: The reason. It is empty if the call took too long.
    why: str = ""

    @property
    def text(self) -> str:
        """A sentence that says what happened."""
        limit = f"No answer within {self.seconds:g} s; the suite ended the host process."
        return self.why or f"{limit} The option `timeout` sets the limit."


Answer = Replied | Raised | NotSupported | Mistaken | Died | TimedOut


@dataclass(frozen=True)
class Description:
    """A host's description of itself, sent when it has started."""

    framework: str
    version: str
    environment: dict[str, str]
    subjects: tuple[EntryPoint, ...]

    @property
    def heading(self) -> str:
        """The framework's name and, if it has one, its version."""
        return f"{self.framework} {self.version}".rstrip()


class StartError(Exception):
    """An adapter did not start. The text says why and what to do.

    `kind` is "bad-target", "missing-framework", "missing-device", "other-version", "broken-adapter", "protocol",
    "no-host" or "start-timeout".
    """

    def __init__(self, kind: str, text: str) -> None:
        super().__init__(text)
        self.kind = kind


class LoadError(StartError):
    """An adapter's module ended the process, or took too long, while it was loaded."""

    def __init__(self, kind: str, text: str, loading: Mapping[str, Any]) -> None:
        super().__init__(kind, text)
        #: The message `loading`. It is the last message of the host.
        self.loading = loading


class Connection(Protocol):
    """A started adapter that answers calls."""

    description: Description

    def begin(self, call: Call) -> None:
        """Begin to answer the call that will be asked next, if this can be done meanwhile."""

    def ask(self, call: Call, timeout: float) -> Answer:
        """Return the answer to one call, within `timeout` seconds."""

    def renew(self) -> None:
        """Make the next call in a new process."""

    def close(self) -> None:
        """End the adapter."""

    def kill(self) -> None:
        """End the adapter at once, from any thread."""


@dataclass(frozen=True)
class Domain:
    """The values of an option for which a documentation promises something: all values above a number."""

    option: str
    above: float
    #: The name of another option, or empty. A call that gives that option is never outside the domain.
    without: str = ""

    def leaves_out(self, options: Mapping[str, Any]) -> bool:
        """Return whether the options of a call lie outside the domain. NaN does."""
        return self.option in options and self.without not in options and not options[self.option] > self.above


@dataclass(frozen=True)
class Claim:
    """One statement of a framework's documentation."""

    #: A pattern of entry points.
    subject: str
    #: Patterns of rules or cases.
    rules: tuple[str, ...]
    formula: Formula | None
    predicts: str | None
    #: The words of the documentation, or an empty text if only the adapter declares the formula.
    phrase: str
    where: str
    #: The phrase stands in this object's docstring, which has this SHA-256 (as `inspect.getdoc` gives it).
    docstring: str | None = None
    docstring_sha256: str | None = None
    #: Patterns of rules or cases that the claim leaves out.
    exclude: tuple[str, ...] = ()
    domain: Domain | None = None
    #: The versions whose documentation has the phrase, such as ">=2.6,<3"; if empty, all.
    versions: str = ""
    #: A pattern of the devices that the phrase is about.
    devices: str = "*"

    def speaks_of(self, case: str, entry_point: str) -> bool:
        """Return whether the claim is about a cell. The id of a rule covers all its cases."""
        names = (case, case.partition("/")[0])
        is_about = matches(self.subject, entry_point) and matches_any(self.rules, *names)
        return is_about and not matches_any(self.exclude, *names)


@dataclass(frozen=True)
class Context:
    """A case, the entry point that was asked, and the claims about its framework's documentation."""

    case: Case
    subject: EntryPoint
    claims: tuple[Claim, ...] = ()

    @property
    def through_optimizer(self) -> bool:
        """Whether results are differences of parameters, which lose the sign of a zero and the bits of a NaN."""
        return "optimizer" in self.subject.features

    @property
    def flushes_subnormals(self) -> bool:
        """Whether the entry point declares that subnormal numbers may become zero."""
        return "flushes_subnormals" in self.subject.features


@dataclass(frozen=True)
class Verdict:
    """A status, with the evidence for it."""

    status: Status
    detail: str = ""
    ulp: float | None = None
    expected: Any = None
    observed: Any = None
    quote: str | None = None
    url: str | None = None
    #: The short word for the answer (see `fingerprint`).
    behaviour: str = "none"
    #: For `unsupported`: what is missing, one of `gradclip_reports.statuses.LACKS`.
    lacks: str | None = None
    #: The rule that is broken, if it is not the rule of the case.
    breaks: str | None = None
    #: The framework's own formula, if it explains the answer.
    formula: Formula | None = None


NOT_READ_BACK = Verdict(
    Status.UNSUPPORTED, "The adapter cannot read back the gradients that it passed.", lacks="adapter"
)


def join_lines(*parts: str) -> str:
    """Join parts of a script by line breaks, and leave out empty ones."""
    return "\n".join(part for part in parts if part)


REFUSED = """try:
{clip}
except Exception:
{then}
else:
{results}
    raise AssertionError(f"expected: an error; observed: {{results}}")"""


@dataclass(frozen=True)
class ScriptCall:
    """The lines of a call, from its gradients to the results."""

    #: Lines that make the list `gradients`.
    gradients: str
    #: Lines that make the list `results`, and `norm`, which may be None.
    clip: str
    #: Lines that make the script's variable `results`, a list of NumPy arrays: `results` from the framework's results,
    #: and `inputs` from the gradients that were passed.
    results: str
    inputs: str

    def write_lines(self, clip: str | None = None) -> str:
        """Return all lines. `clip`, if it is given, replaces the lines that clip."""
        return join_lines(self.gradients, self.clip if clip is None else clip, self.results)

    def expect_error(self, then: str = "pass") -> str:
        """Return lines that fail if the call raises no error. If it raises one, the lines `then` follow."""
        parts = {"clip": self.clip, "then": then, "results": self.results}
        refused = REFUSED.format(**{name: indent(lines, "    ") for name, lines in parts.items()})
        return join_lines(self.gradients, refused.replace("\n\n", "\n"))


@dataclass(frozen=True)
class Script:
    """The parts from which a script is written."""

    case: Case
    entry_point: EntryPoint
    call: ScriptCall
    #: Whether the framework raised in the run.
    raised: bool
    #: If the script makes two calls: the call inside the framework's compiler.
    compiled: ScriptCall | None = None
    #: Whether the framework raised in the run, and the judge let it pass.
    refused_rightly: bool = False

    def clip_lines(self) -> str:
        """Return the lines of the call. An error ends the script, and its traceback shows the place."""
        clip = join_lines('print("expected: no error")', self.call.clip) if self.raised else self.call.clip
        return self.call.write_lines(clip)
