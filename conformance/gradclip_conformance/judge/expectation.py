"""Define the base class of expectations. Each makes calls, judges the answers, and writes a description and a script.

A subclass is registered under its `name`, and cases ask for it by this name (see `cases.model.expect`). The folder
`expectations` holds the subclasses of the suite; `judging` applies them. Every reply must have the right form, whatever
a case expects (see `find_broken_form`).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar

from gradclip_adapters.contract import DTYPES, Array, Gradient, Reply
from gradclip_reports.records import Cell
from gradclip_reports.statuses import Status
from gradclip_reports.values import format_count

from ..cases.literals import NoScript
from ..cases.model import Case, Expect
from ..cases.patterns import suggest_known
from ..oracle.comparison import Comparison, compare_formulas
from ..oracle.formats import FORMATS
from ..oracle.formula import Formula
from ..oracle.predict import predict
from ..oracle.question import find_narrowest
from .fingerprint import show_answer
from .model import Answer, Context, Raised, Script, Verdict

#: A part of a description: a sentence, or values to be shown.
Part = str | list[Any] | Mapping[str, Any]

_KINDS: dict[str, type[Expectation]] = {}


@dataclass(frozen=True)
class Expectation:
    """A condition on the answers to the calls of a case. The base class expects nothing."""

    #: Cases ask for the expectation by this name.
    name: ClassVar[str]
    #: The short word for an answer describes this part of a reply: "gradients" or "norm".
    about: ClassVar[str] = "gradients"
    #: The rule, without its operation, about the part of an answer that the class judges. It is empty for the elements.
    rule: ClassVar[str] = ""
    #: Whether the class judges a reply that is not a list of arrays. Otherwise such a reply fails.
    takes_malformed: ClassVar[bool] = False
    #: Whether results are compared with each other or with the input, and not with exact results.
    relates: ClassVar[bool] = False
    #: Whether the results are clipped gradients, and not parameters or derivatives.
    gives_gradients: ClassVar[bool] = True
    #: Whether the class judges the elements of all gradients that it is about, or their results are not defined.
    judges_elements: ClassVar[bool] = False
    #: Whether the case is about all rules of a call, so that a poor answer under any of them counts.
    is_about_all: ClassVar[bool] = False
    #: Whether the script of a case makes the call a second time inside the framework's compiler.
    compiles: ClassVar[bool] = False
    #: The description, if it is one sentence for all cases.
    says: ClassVar[str] = ""
    #: Whether a script passes the results to NumPy.
    needs_numbers: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        """Register a class that has a name of its own."""
        super().__init_subclass__()
        if "name" in vars(cls):
            _KINDS[cls.name] = cls

    # The calls.

    def follow_up(self, case: Case, first: Answer | None) -> Case | None:
        """Return the second call, made from the first one and its answer, or None if there is no second call.

        `first` is None if the first call has no answer yet. Then this also returns None if the second call depends on
        the answer.
        """
        del case, first
        return None

    # The verdict.

    def judge_answers(self, context: Context, answers: Sequence[Answer]) -> Verdict | None:
        """Judge answers that need not have the right form, such as errors. Return None if the replies must be judged.

        If this returns None and one of the answers is not a reply, the case fails.
        """
        del context, answers
        return None

    def judge_replies(self, context: Context, replies: Sequence[Reply]) -> Verdict:
        """Judge replies. The first of them has the right form."""
        raise NotImplementedError

    # The parts of a call that a framework's own formula may explain.

    def select_explained_results(self, reply: Reply) -> Sequence[Array | None] | None:
        """Return the arrays of a reply that a formula may explain, or None if no formula can."""
        del reply
        return None

    def list_judged_gradients(self, case: Case) -> list[int]:
        """Return the indices of the clipped gradients that the case is about."""
        return list(case.included)

    def compare_formulas(self, context: Context, reply: Reply, formula: Formula) -> Comparison | None:
        """Compare a reply with the results of two formulas, or return None if these results are alike."""
        results = self.select_explained_results(reply)
        if results is None or find_broken_form(context.case, replace(reply, gradients=tuple(results))) is not None:
            return None
        indices = self.list_judged_gradients(context.case)
        return compare_formulas(context.case, formula, results, indices, must_differ=not self.relates)

    # The description.

    def describe(self, case: Case) -> Sequence[Part]:
        """Return the parts of a description of what is expected: the sentence `says`, unless a class overrides this."""
        del case
        return (self.says or f"{self.name}: this expectation has no description.",)

    # A script that shows a failure.

    def choose_case_to_show(self, case: Case, cell: Cell) -> Case | None:
        """Return another case with which a script can show the cell, or None if a script can show it with this case."""
        del case, cell
        return None

    def show_first(self, cell: Cell) -> Any:
        """Return the answer to the first call as a record shows it."""
        return cell.observed

    def write_script(self, script: Script) -> str:
        """Return lines that clip, and that fail if the answer does not meet the expectation.

        Raises
        ------
        NoScript
            If a script cannot show the expectation.
        """
        msg = f"A script cannot show the expectation {self.name!r} of {script.case.id}."
        raise NoScript(msg)


@functools.lru_cache(maxsize=1 << 10)
def resolve(expected: Expect) -> Expectation:
    """Return the expectation that a case names.

    Raises
    ------
    ValueError
        If no expectation has this name, or if the expectation has no such parameter.
    """
    if expected.name not in _KINDS:
        msg = f"There is no expectation {expected.name!r}.{suggest_known(expected.name, _KINDS)}"
        raise ValueError(msg)
    kind = _KINDS[expected.name]
    known = [field.name for field in fields(kind)]
    for parameter, _ in expected.parameters:
        if parameter not in known:
            hint = suggest_known(parameter, known)
            msg = f"The expectation {expected.name!r} has no parameter {parameter!r}.{hint}"
            raise ValueError(msg)
    try:
        return kind(**dict(expected.parameters))
    except TypeError as error:
        msg = f"The expectation {expected.name!r} lacks a parameter: {error}."
        raise ValueError(msg) from error


def has_option_for_errors(context: Context) -> bool:
    """Return whether the entry point has an option that asks for an error if the norm is not finite."""
    return "error_if_nonfinite" in context.subject.features


def may_raise(context: Context) -> bool:
    """Return whether an error is allowed because the dtype cannot hold the norm, and no option asks for errors."""
    bounds = predict(context.case).norms[0]
    held = bounds is not None and bounds.upper <= FORMATS[find_narrowest(context.case)].largest
    return not held and not has_option_for_errors(context)


def accept_error_beyond_range(context: Context, answers: Sequence[Answer]) -> Verdict | None:
    """Accept an error in the first answer if the dtype cannot hold the norm. Otherwise, return None."""
    if not (isinstance(answers[0], Raised) and may_raise(context)):
        return None
    return Verdict(Status.PASS, observed=show_answer(answers[0]))


def find_broken_form(case: Case, reply: Reply) -> Verdict | None:
    """Return a failure if a reply cannot be compared because of its form, or None if its form is right."""
    given, got = len(case.gradients), len(reply.gradients)
    if given != got:
        return Verdict(
            Status.FAIL, f"{format_count(got, 'gradient')} came back for {given}.", expected=given, observed=got
        )
    for i, (gradient, result) in enumerate(zip(case.gradients, reply.gradients, strict=True)):
        before = gradient.array
        if (before is None) != (result is None):
            was, became = ("None", "an array") if before is None else ("an array", "None")
            detail = f"Gradient {i} was {was} and came back as {became}."
            return Verdict(Status.FAIL, detail, observed=_describe_form(result))
        if before is None or result is None:
            continue
        if before.shape != result.shape and not _is_dense(gradient, result):
            detail = f"Gradient {i} had the shape {before.shape} and came back as {result.shape}."
            return Verdict(Status.FAIL, detail, expected=list(before.shape), observed=list(result.shape))
        if result.dtype not in DTYPES:
            detail = (
                f"Gradient {i} was {before.dtype} and came back as {result.dtype}, which is not a float dtype here."
            )
            return Verdict(Status.FAIL, detail, expected=before.dtype, observed=result.dtype)
    return None


def _describe_form(array: Array | None) -> dict[str, object] | None:
    return None if array is None else {"dtype": array.dtype, "shape": list(array.shape)}


def _is_dense(gradient: Gradient, result: Array) -> bool:
    """Return whether rows that are stored twice came back as the dense gradient. For other rows, see `take_rows`."""
    rows, given = gradient.rows, gradient.array
    dense = None if given is None else (gradient.height, *given.shape[1:])
    return rows is not None and len(set(rows)) < len(rows) and result.shape == dense


def find_first_changed(case: Case, after: Sequence[Array | None] | None) -> int | None:
    """Return the index of the first passed gradient that has changed, or None if none has, or if `after` is None."""
    return None if after is None else next(list_changed(case, after), None)


def list_changed(case: Case, after: Sequence[Array | None]) -> Iterator[int]:
    """Yield the indices of the passed gradients that have changed."""
    for i, gradient in enumerate(case.gradients):
        # A gradient that is now None has changed, too.
        now = after[i] if i < len(after) else None
        if gradient.array is not None and gradient.array != now:
            yield i


def take_rows(case: Case, reply: Reply) -> Reply:
    """Return the reply. Cut dense results of row-sparse gradients to their rows, if all other rows are zeros."""
    if len(reply.gradients) != len(case.gradients) or all(gradient.rows is None for gradient in case.gradients):
        return reply
    pairs = zip(case.gradients, reply.gradients, strict=True)
    return replace(reply, gradients=tuple(_take_rows(gradient, got) for gradient, got in pairs))


def _take_rows(gradient: Gradient, got: Array | None) -> Array | None:
    rows, given = gradient.rows, gradient.array
    if rows is None or given is None or got is None or len(set(rows)) < len(rows) or got.dtype not in DTYPES:
        return got
    if got.shape != (gradient.height, *given.shape[1:]):
        return got
    bits = got.bits()
    others = [row for row in range(len(bits)) if row not in rows]
    return got if bits[others].any() else Array(got.dtype, given.shape, bits[list(rows)].tobytes())
