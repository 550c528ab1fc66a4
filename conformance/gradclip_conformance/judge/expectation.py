"""Define the base class of expectations, which know their calls, their verdict, their description and their script.

A subclass is registered under its `name`, and cases ask for it by this name (see `cases.model.expect`). The folder
`expectations` holds the subclasses of the suite; `judging` applies them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from gradclip_adapters.contract import Array, Reply
from gradclip_reports.records import Cell

from ..cases.literals import NoScript
from ..cases.model import Case, Expect
from ..cases.patterns import did_you_mean
from ..oracle.formats import FORMATS
from ..oracle.model import Prediction
from ..oracle.question import narrowest
from .model import Answer, Context, Script, Verdict

__all__ = ["Expectation", "Part", "has_option_for_errors", "may_raise", "resolve"]

#: A part of a description: a sentence, or values to be shown.
Part = str | list[Any] | Mapping[str, Any]

_KINDS: dict[str, type[Expectation]] = {}


@dataclass(frozen=True)
class Expectation:
    """Something that a case expects of the answers to its calls; the base class expects nothing."""

    #: Cases ask for the expectation by this name.
    name: ClassVar[str]
    #: The part of a reply that the word for an answer describes: "gradients" or "norm".
    about: ClassVar[str] = "gradients"
    #: Whether the class judges a reply that is not a list of arrays; otherwise such a reply fails.
    takes_malformed: ClassVar[bool] = False
    #: Whether results are compared with each other or with the input, and not with exact results.
    relates: ClassVar[bool] = False
    #: Whether the script of a case makes the call a second time inside the framework's compiler.
    compiles: ClassVar[bool] = False
    #: Whether a script passes the results to NumPy.
    needs_numbers: ClassVar[bool] = True

    def __init_subclass__(cls) -> None:
        """Register a class that has a name of its own."""
        super().__init_subclass__()
        if "name" in vars(cls):
            _KINDS[cls.name] = cls

    # The calls.

    def follow_up(self, case: Case, first: Answer) -> Case | None:
        """Return the second call, made from the first one and its answer; None if there is no second call."""
        del case, first
        return None

    # The verdict.

    def judge_answers(self, context: Context, answers: Sequence[Answer]) -> Verdict | None:
        """Judge answers whose form does not matter, such as errors; return None to have the replies judged.

        If this returns None and one of the answers is not a reply, the case fails.
        """
        del context, answers
        return None

    def judge_replies(self, context: Context, replies: Sequence[Reply]) -> Verdict:
        """Judge replies; the first of them has the right form."""
        raise NotImplementedError

    # For explanations by a framework's own formula.

    def explained_results(self, reply: Reply) -> Sequence[Array | None] | None:
        """Return the arrays of a reply that a formula may explain; None if no formula can."""
        del reply
        return None

    def judged_gradients(self, case: Case) -> list[int]:
        """Return the indices of the clipped gradients that the case is about."""
        return list(case.included)

    # The description.

    def describe(self, case: Case) -> Sequence[Part]:
        """Return the parts of a description of what is expected."""
        del case
        return (f"{self.name}: this expectation has no description.",)

    # A script that shows a failure.

    def case_to_show(self, case: Case, cell: Cell) -> Case | None:
        """Return another case with which a script can show the cell; None if this case can."""
        del case, cell
        return None

    def shown_first(self, cell: Cell) -> Any:
        """Return the answer to the first call as a record shows it."""
        return cell.observed

    def write_script(self, script: Script) -> str:
        """Return lines that clip, and that fail if the answer is not what the case expects.

        Raises
        ------
        NoScript
            When a script cannot show it.
        """
        msg = f"A script cannot show the expectation {self.name!r} of {script.case.id}."
        raise NoScript(msg)


def resolve(expected: Expect) -> Expectation:
    """Return the expectation that a case names.

    Raises
    ------
    ValueError
        When no expectation has this name, or it has no such parameter.
    """
    if expected.name not in _KINDS:
        msg = f"There is no expectation {expected.name!r}.{did_you_mean(expected.name, _KINDS)}"
        raise ValueError(msg)
    kind = _KINDS[expected.name]
    known = [field.name for field in fields(kind)]
    for parameter, _ in expected.parameters:
        if parameter not in known:
            hint = did_you_mean(parameter, known)
            msg = f"The expectation {expected.name!r} has no parameter {parameter!r}.{hint}"
            raise ValueError(msg)
    try:
        return kind(**dict(expected.parameters))
    except TypeError as error:
        msg = f"The expectation {expected.name!r} lacks a parameter: {error}."
        raise ValueError(msg) from error


def has_option_for_errors(context: Context) -> bool:
    """Return whether the subject has an option that asks for an error if the norm is not finite."""
    return "error_if_nonfinite" in context.subject.features


def may_raise(context: Context, prediction: Prediction) -> bool:
    """Return whether an error is allowed: the dtype cannot hold the norm, and no option asks for errors."""
    bounds = prediction.norms[0]
    held = bounds is not None and bounds.upper <= FORMATS[narrowest(context.case)].largest
    return not held and not has_option_for_errors(context)
