"""Define the contract between the suite and an adapter.

The suite sends a :class:`Call`. The adapter converts the named gradients to its framework's tensors, calls one public
*entry point* of the framework, and converts the result to a :class:`Reply`. The adapter never computes a clip itself,
and it never judges.

This module, `wire` and `host` run in the Python that the framework under test needs. So they use only the standard
library and NumPy.
"""

from __future__ import annotations

import contextlib
import functools
import re
import threading
import warnings as _warnings
from dataclasses import dataclass, field
from typing import Any, Callable, Iterator, Mapping, Sequence, Union

import numpy as np

from .limits import NAME, shorten
from .operations import OPERATIONS
from .recipes import Recipe

__all__ = [
    "DTYPES",
    "FEATURES",
    "LACKS",
    "OPERATIONS",
    "About",
    "Adapter",
    "Array",
    "BadDeclaration",
    "BadReply",
    "Call",
    "EntryPoint",
    "FrameworkCall",
    "FrameworkRaised",
    "Gradient",
    "MissingDevice",
    "Placement",
    "Reply",
    "Unsupported",
    "framework_call",
    "name_type",
    "read_text",
]

#: The dtypes on the wire, and the unsigned integers of the same width that carry their bits.
DTYPES = {"float16": "<u2", "bfloat16": "<u2", "float32": "<u4", "float64": "<u8"}

FEATURES = {
    "returns_norm": "the total norm before clipping is returned",
    "may_return_norm": "the suite finds out in a call whether the norm is returned",
    "in_place": "the results are written into the gradients that were passed",
    "functional": "the gradients that were passed are left unchanged",
    "excludes": "a gradient can be excluded from the clip (`Gradient.need_clip` false)",
    "optional_flags": "`need_clip` has a default, and is left out if nothing is excluded",
    "none_grads": "a parameter may have no gradient (`Gradient.array` is None)",
    "error_if_nonfinite": "the option `error_if_nonfinite` exists",
    "norm_type": "norms other than the Euclidean one: `EntryPoint.norm_types` lists them",
    "min_max": "`min` may be given beside `max`",
    "requires_min": "`min` must be given: the suite passes the default if a case leaves it out",
    "eps": "the option `eps` exists",
    "optimizer": "called through an optimizer: the reply holds the negated parameters after one step from zero",
    "learning_rate": "the option `learning_rate` exists (optimizers only)",
    "training": "the options `start`, `weight_decay`, `steps` and `accumulate` exist (optimizers only)",
    "groups": "`Gradient.group` is honoured: an optimizer has several groups of parameters",
    "norm_per_group": "`Gradient.group` is honoured, and the documentation gives each group a norm of its own",
    "differentiable": "`Gradient.cotangent` is honoured: the reply holds the derivatives through the clip",
    "compiled": "runs inside the framework's compiler or graph",
    "compiles": "the option `compiled` makes the call inside the framework's compiler or graph",
    "mixed_dtypes": "gradients of several dtypes in one call",
    "strided": "the `Gradient.layout` strided, transposed or sliced is honoured",
    "reversed": "the `Gradient.layout` reversed is honoured",
    "broadcast": "the `Gradient.layout` broadcast is honoured; such arrays cannot be written",
    "packed": "the `Gradient.layout` packed is honoured",
    "swapped": "the `Gradient.layout` swapped is honoured",
    "read_only": "the `Gradient.layout` read-only is honoured; such arrays cannot be written",
    "unaligned": "the `Gradient.layout` unaligned is honoured",
    "repeated": "`Gradient.same_as` is honoured: one tensor occurs twice in the list",
    "sparse": "`Gradient.rows` is honoured: a gradient holds only some rows, and may hold a row twice",
    "flushes_subnormals": "numbers below the normal range may be read as zero, or become zero",
    "generator": "the option `as_generator` passes the gradients as a generator",
    "single": "the option `as_single` passes a single gradient without a list",
    "threads": "the option `threads` makes the call from several threads at once (`arrays.answer_in_threads`)",
    "follows": "the option `followed` makes another call before the results of the first are read",
    "flag_kinds": "the option `flags` passes the flags as NumPy's bools, or as 1 and 0",
    "threshold_kinds": "the option `threshold_as` passes the threshold as a NumPy scalar, an array, a bool or a text",
    "tensor_threshold": "the option `tensor_threshold` passes the threshold as a tensor without axes",
    "axes": "the option `axes` names the axes that share a norm: `0`, `-1` or `0,2`",
    "distributed": "the option `mesh` makes each call in several processes, which share the gradients (`mesh`)",
    "partial": "the placement `partial` is honoured: a gradient is a sum to reduce (`mesh`)",
    "layers": "the option `layers` exists: each gradient of an example has a norm and a threshold of its own",
    "units_last": "the last axis of a gradient counts the units (by default the first axis)",
    "reuses": "the option `reused` makes the call on tensors of earlier calls (`arrays.make_earlier_calls`)",
}

#: The kinds of `Unsupported`: what is lacking.
LACKS = {
    "interface": "no such interface",
    "kernel": "no kernel in this build",
    "adapter": "limit of the adapter",
}

#: The entries of an environment that the host or the suite adds. An adapter must not give them.
KNOWN_ELSEWHERE = ("python", "platform", "suite_python", "second_oracle")


@dataclass(frozen=True)
class Array:
    """An array as it is sent. The bytes are little-endian and row-major, and bfloat16 is sent as its 16 bits."""

    dtype: str
    shape: tuple[int, ...]
    data: bytes
    #: The recipe that made the data, if there is one. A host can make the same data from it.
    recipe: Recipe | None = field(default=None, compare=False, repr=False)

    def bits(self) -> np.ndarray[Any, Any]:
        """Return the elements' bits as a writable array of unsigned integers with the same shape."""
        return np.frombuffer(self.data, dtype=DTYPES[self.dtype]).reshape(self.shape).copy()

    def numpy(self) -> np.ndarray[Any, Any]:
        """Return the elements as a writable NumPy array. Bfloat16 needs the package ml_dtypes."""
        return self.bits().view(find_numpy_dtype(self.dtype))

    @classmethod
    def of(cls, values: np.ndarray[Any, Any], dtype: str | None = None) -> Array:
        """Pack a NumPy array. `dtype="bfloat16"` says that unsigned 16-bit integers are bfloat16 bits."""
        values = np.asarray(values)
        name = dtype or _name_dtype(values.dtype)
        if values.dtype in _AS_SENT:
            return cls(name, values.shape, values.tobytes())
        # Other dtypes (int64, float128, ...) are sent under their own names, so that the judge sees them.
        order = values.dtype.newbyteorder("<") if values.dtype.kind in "iufc" else values.dtype
        return cls(name, tuple(int(n) for n in values.shape), np.ascontiguousarray(values).astype(order).tobytes())


#: The dtypes that have the same bytes in memory and on the wire. The test `values.dtype in` compares byte orders, too.
_AS_SENT = frozenset(np.dtype(code) for code in ("<f2", "<f4", "<f8"))


@functools.lru_cache(maxsize=None)
def _name_dtype(dtype: np.dtype[Any]) -> str:
    return dtype.name


@functools.lru_cache(maxsize=None)
def find_numpy_dtype(name: str) -> np.dtype[Any]:
    """Return NumPy's dtype for a name on the wire."""
    if name == "bfloat16":
        import ml_dtypes

        bfloat16: np.dtype[Any] = np.dtype(ml_dtypes.bfloat16)
        return bfloat16
    return np.dtype(name).newbyteorder("=")


#: The placement of a gradient on one axis of a mesh (see `mesh`).
Placement = Union[int, str]


@dataclass(frozen=True)
class Gradient:
    """One named gradient of a call."""

    name: str
    #: None: the parameter has no gradient.
    array: Array | None
    need_clip: bool = True
    #: The layout in memory. The values are the same for each layout:
    #:
    #: - "contiguous": row by row, without gaps;
    #: - "strided": every other element of a larger buffer along the last axis;
    #: - "transposed": the axes of the buffer are in reverse order;
    #: - "sliced": the middle of a larger buffer;
    #: - "reversed": the elements of the buffer are in reverse order;
    #: - "broadcast": all parts along the first axis share the memory of the first one, or all parts along the last axis
    #:   do if those along the first one differ; they cannot be written;
    #: - "packed": all such gradients of the call lie in one buffer, one after another;
    #: - "swapped": the bytes of each element are in reverse order;
    #: - "read-only": row by row, without gaps, and cannot be written;
    #: - "unaligned": the elements do not begin at a multiple of their size.
    layout: str = "contiguous"
    #: If an earlier gradient of the call is the same tensor object, its index. Otherwise None.
    same_as: int | None = None
    #: For a row-sparse gradient: each row of `array` is added to this row of the dense gradient.
    rows: tuple[int, ...] | None = None
    #: For a row-sparse gradient: the dense gradient has this many rows. In a case of a unitwise clip, 1 says that the
    #: gradient is the only row of a matrix, and not a vector. An adapter gets the matrix, without this number.
    height: int | None = None
    #: The parameter group. An optimizer, or a program with several clips, may have several groups.
    group: int = 0
    #: The factor of each element of the result, for a derivative through the clip. `Reply.gradients` then holds
    #: derivatives in place of the results: the derivative, by each gradient, of the sum of all results times their
    #: cotangents.
    cotangent: Array | None = None
    #: In a call on a mesh of processes: the placement on each axis of the mesh (see `mesh`). `array` is the whole
    #: gradient. On an axis without a placement, each process has a copy.
    placements: Mapping[str, Placement] = field(default_factory=dict, hash=False)
    #: In a unitwise clip: the parameter, with the dtype and shape of `array`.
    parameter: Array | None = None

    def copy_with(self, **changed: Any) -> Gradient:
        """Return a copy with other fields."""
        # A list may have a thousand gradients, and `dataclasses.replace` takes five times as long.
        copy = object.__new__(Gradient)
        vars(copy).update(vars(self), **changed)
        return copy


@dataclass(frozen=True)
class Call:
    """The gradients and options of one call of one entry point.

    The options, of which a case sets only those that it needs: `clip_norm` (clip by most norms), `clip_factor`
    (unitwise), `max` and `min` (by value), `norm_type`, `eps` (unitwise: the least norm of a parameter's unit),
    `layers` (per example: "equal" or "by size", see the rules), `error_if_nonfinite`, `learning_rate`, `as_generator`,
    `as_single`, `threads`, `reused`, `followed`, `flags`, `threshold_as`, `tensor_threshold`, `axes`, `compiled`,
    `mesh` (the mesh of processes or devices that make the call together, such as "replica=2,shard=2"). With the feature
    `training`, for an optimizer: `start` (the first value of all parameters; zero if absent), `weight_decay`, `steps`
    (each with its own backward pass) and `accumulate` (the number of backward passes before the clip; each adds the
    gradients).
    """

    subject: str
    gradients: tuple[Gradient, ...]
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Reply:
    """The framework's answer to a call."""

    #: The clipped gradients, in the order and number in which the framework returned them.
    #: A row-sparse gradient may come back as the rows that were passed, or dense.
    gradients: tuple[Array | None, ...]
    #: The norm that the framework returned, if it returns one.
    norm: Array | None = None
    #: The values of the passed gradients after the call, or None if the adapter cannot read them.
    inputs: tuple[Array | None, ...] | None = None
    #: Whether each result is the same object as its gradient, or a view of it, or None if that has no meaning. If a
    #: gradient has changed whose result is another object, the call breaks the rule `inputs-not-mutated`, unless the
    #: entry point is `in_place`.
    same_object: tuple[bool, ...] | None = None
    #: The warnings that the framework issued, as "Category: text".
    warnings: tuple[str, ...] = ()
    #: A description of what the framework returned, if that is not a list of arrays. `gradients` is empty then. The
    #: text ends a sentence that begins with "it".
    malformed: str | None = None
    #: Side effects on memory, as ends of sentences that begin with "it": results that share memory with each other or
    #: with other gradients, or that cannot be written. None if the adapter does not look.
    shared: tuple[str, ...] | None = None
    #: The state that the call has changed, such as "the caller's list" or "NumPy's error state". The host adds to it.
    disturbed: tuple[str, ...] | None = None
    #: In a call of several processes: the differences between their answers, as ends of sentences that begin with "it".
    #: None if the adapter does not look. `gradients` holds whole results, and `norm` the norm of the first process.
    apart: tuple[str, ...] | None = None


@dataclass(frozen=True)
class EntryPoint:
    """One public entry point of a framework, its abilities, and the function that calls it."""

    #: The name in the framework's documentation, with the mode in brackets.
    name: str
    operation: str
    dtypes: tuple[str, ...]
    features: tuple[str, ...] = ()
    norm_types: tuple[float, ...] = (2.0,)
    #: The framework's own formula, for adapters without a file of claims: `{"kind": "coefficient", "eps": 1e-6}`.
    formula: Mapping[str, Any] | None = None
    #: The mesh of the calls of an entry point that is `distributed`: the size of each axis by its name. None: one axis
    #: `ranks`, whose size differs from case to case.
    mesh: Mapping[str, int] | None = field(default=None, hash=False)
    #: The function that calls the entry point. Each base class of adapters says what it takes and returns. Only the
    #: adapter uses this field and those below: they are not sent, and two descriptions that differ in them are equal.
    clip: Any = field(default=None, compare=False, repr=False)
    #: The same function under the framework's compiler, if the adapter does not compile `clip` itself.
    compiled: Any = field(default=None, compare=False, repr=False)
    #: Whether the framework's function takes one tensor. `clip` then calls it on each tensor in turn.
    one_by_one: bool = field(default=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        """Refuse unknown words, because a misspelt word would make cells `unsupported` unnoticed."""
        check_name("entry point", self.name)
        for p in self.norm_types:
            # With NaN, no comparison is true.
            if not (isinstance(p, (int, float)) and p > 0):
                message = f"The entry point {self.name!r} declares a norm of order {p!r}: orders are numbers above 0."
                raise BadDeclaration(message)
        for what, words, known in (
            ("operation", (self.operation,), OPERATIONS),
            ("dtype", self.dtypes, tuple(DTYPES)),
            ("feature", self.features, tuple(FEATURES)),
        ):
            unknown = sorted(set(words) - set(known))
            if unknown:
                named = f"The entry point {self.name!r} declares the {what} {', '.join(map(repr, unknown))}"
                message = f"{named}, which does not exist; there are {', '.join(known)}."
                raise BadDeclaration(message)


@dataclass(frozen=True)
class About:
    """The framework that an adapter has found, and its environment."""

    framework: str
    #: Empty if the framework has no version.
    version: str
    #: Anything that may change a result: devices, threads, environment variables, build flags.
    environment: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse texts that a record cannot hold, and entries that the host or the suite adds."""
        check_name("framework", self.framework)
        if self.version:
            check_name("version", self.version)
        for key, value in self.environment.items():
            check_name("environment's entry", key)
            if not isinstance(value, str):
                message = f"The environment's entry {key!r} is a {type(value).__name__}, and must be a text."
                raise BadDeclaration(message)
        reserved = sorted(set(self.environment) & set(KNOWN_ELSEWHERE))
        if reserved:
            named = ", ".join(map(repr, reserved))
            message = f"The environment names {named}, which the suite finds out by itself: leave it out."
            raise BadDeclaration(message)


def check_name(what: str, name: Any) -> None:
    """Refuse a name that does not fit into one line of a report.

    Raises
    ------
    BadDeclaration
        If the name does not fit.
    """
    if not isinstance(name, str) or not name or not name.isprintable() or len(name) > NAME.number:
        message = f"The {what} is called {name!r:.80}: a name is printable text of 1 to {NAME.number} characters."
        raise BadDeclaration(message)


class BadDeclaration(ValueError):
    """An adapter describes itself in a way that the contract forbids. The text is for the adapter's author."""


class MissingDevice(Exception):
    """A framework does not find the device that was asked for. The text is a sentence that names both."""


class BadReply(TypeError):
    """An adapter's `call` returned something that the contract forbids. The text is for the adapter's author."""


class Unsupported(Exception):
    """An adapter cannot make a call. The text says what is missing.

    `kind` is one of `LACKS`: the framework has no such interface, its build has no kernel for it, or the adapter itself
    has a limit. If in doubt, make the call: the framework's own error says more.
    """

    def __init__(self, text: str = "", kind: str = "adapter") -> None:
        super().__init__(text)
        if kind not in LACKS:
            message = f"Unsupported is raised with the kind {kind!r}; there are {', '.join(LACKS)}."
            raise BadReply(message)
        self.kind = kind


class FrameworkRaised(Exception):
    """The framework raised an exception. :func:`framework_call` raises this in its place."""

    def __init__(self, kind: str, text: str, inputs: Sequence[Array | None] | None = None) -> None:
        super().__init__(f"{kind}: {text}")
        self.kind = kind
        self.text = text
        self.inputs = None if inputs is None else tuple(inputs)
        #: The state of the process that the call has changed. The host looks at it.
        self.disturbed: tuple[str, ...] = ()


@dataclass
class FrameworkCall:
    """The warnings of a :func:`framework_call` block."""

    warnings: tuple[str, ...] = ()


#: If several threads call at once, each thread has a `manager` here: the context in which it calls the framework.
together = threading.local()


@contextlib.contextmanager
def _record_warnings() -> Iterator[list[_warnings.WarningMessage]]:
    with _warnings.catch_warnings(record=True) as caught:
        _warnings.simplefilter("always")
        yield caught


@contextlib.contextmanager
def framework_call(
    inputs: Callable[[], Sequence[Array | None]] | None = None,
) -> Iterator[FrameworkCall]:
    """Mark the lines that call the framework. An exception there is the framework's answer, not the adapter's fault.

    Parameters
    ----------
    inputs
        A function that reads back the gradients that were passed. It shows whether the call changed them before it
        raised.

    Yields
    ------
    FrameworkCall
        The warnings of the block, once it has ended. There are none if several threads call at once, because threads
        share the filters of warnings.
    """
    seen = FrameworkCall()
    caught: list[_warnings.WarningMessage]
    with getattr(together, "manager", None) or _record_warnings() as caught:
        try:
            yield seen
        except Unsupported:
            raise
        except Exception as error:
            raise FrameworkRaised(name_type(error), read_text(error), inputs() if inputs else None) from error
        finally:
            seen.warnings = tuple(f"{name_type(w.message)}: {read_text(w.message)}" for w in caught)


#: The lines of stack traces in texts of exceptions: Python's with their lines of code, MXNet's, and fluid's of C++.
_FRAMES = (
    r'File "[^"\n]*", line \d+, in .*(?:\n(?![ \t]*File ")[ \t]+\S.*)?',
    r"\[bt\] \(\d+\) .*",
    r"\d+ {2,}\S.*",
)
_FRAME = re.compile(rf"^[ \t]*(?:{'|'.join(_FRAMES)})(?:\n|\Z)", re.MULTILINE)
#: The place of an operation in a graph, in errors of TensorFlow 1: the file is in the folder of the environment.
_PLACE = re.compile(r" ?\(defined at [^()\n]*:\d+\)")


def read_text(error: object) -> str:
    """Return the text of an exception, without the lines of stack traces.

    These lines name folders and addresses of one machine, and push the message itself out of what a record keeps. The
    exception's own code makes the text, and may itself raise.
    """
    try:
        # `str` may return an instance of a subclass of `str`, whose `__len__` may be wrong.
        return shorten(_PLACE.sub("", _FRAME.sub("", str.__str__(str(error)))))
    except Exception as another:  # noqa: BLE001 - the framework wrote this exception, and it may raise anything
        return f"({name_type(error)} cannot be shown: its text raised {name_type(another)})"


def name_type(value: object) -> str:
    """Return the name of a value's type, even if its metaclass defines a `__name__` that raises."""
    name: str = type.__dict__["__name__"].__get__(type(value))
    return name


class Adapter:
    """The base class of adapters. An adapter names its framework, lists the entry points and answers calls.

    If a framework has several devices, the adapter is made with the argument `device`: "cpu" by default, or "cuda". It
    raises :class:`MissingDevice` if the framework does not find that device. The environment in :meth:`about` names the
    device as `device`, with the name of the card: "cuda (NVIDIA H200)".
    """

    def about(self) -> About:
        """Return the framework and the version that this adapter has found."""
        raise NotImplementedError

    def subjects(self) -> Sequence[EntryPoint]:
        """Return the framework's public entry points that this adapter can call."""
        raise NotImplementedError

    def call(self, call: Call) -> Reply:
        """Convert the gradients, call the framework inside :func:`framework_call`, and convert the results.

        Raises
        ------
        Unsupported
            If the framework cannot perform the call.
        FrameworkRaised
            If the framework raised (see :func:`framework_call`).
        """
        raise NotImplementedError
