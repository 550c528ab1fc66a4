"""Define what an expectation is: its calls, its verdict, its description and its lines of a script.

A subclass is registered under its `name`, by which cases ask for it (see `cases.model.expect`). The subclasses of the
suite stand in the folder `expectations`; `judging` applies them.
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
    """What a case expects of the answers to its calls; the base class expects nothing."""

    #: By which cases ask for it.
    name: ClassVar[str]
    #: Of what of a reply its word is: of the "gradients", or of the "norm".
    about: ClassVar[str] = "gradients"
    #: Whether a reply that is no list of arrays is judged by the class; else it fails.
    takes_malformed: ClassVar[bool] = False
    #: Whether the results of two calls, or of one, are related to each other, and not to exact ones.
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
        """Return the second call, made of the first one and its answer; None where there is none."""
        del case, first
        return None

    # The verdict.

    def judge_answers(self, context: Context, answers: Sequence[Answer]) -> Verdict | None:
        """Judge answers whose form does not matter, such as errors; None where replies of the right form must follow.

        Where this gives None and one of the answers is no reply, the case fails.
        """
        del context, answers
        return None

    def judge_replies(self, context: Context, replies: Sequence[Reply]) -> Verdict:
        """Judge replies, of which the first has the right form."""
        raise NotImplementedError

    # What a framework's own formula may explain.

    def explained_results(self, reply: Reply) -> Sequence[Array | None] | None:
        """Return the arrays of a reply that a formula may explain; None where no formula says anything."""
        del reply
        return None

    def judged_gradients(self, case: Case) -> list[int]:
        """Return the gradients that the case is about, as far as they are clipped."""
        return list(case.included)

    # What people see.

    def describe(self, case: Case) -> Sequence[Part]:
        """Return what is expected, part by part."""
        del case
        return (f"{self.name}: what is expected is not described.",)

    # A script that shows a failure.

    def case_to_show(self, case: Case, cell: Cell) -> Case | None:
        """Return another case by which a script can show the cell; None where it is this one."""
        del case, cell
        return None

    def shown_first(self, cell: Cell) -> Any:
        """Return what a record shows of the answer to the first call."""
        return cell.observed

    def write_script(self, script: Script) -> str:
        """Return the lines that clip, and that fail where the answer is not what the case expects.

        Raises
        ------
        NoScript
            When a script cannot show it.
        """
        msg = f"A script cannot show what {script.case.id} expects: {self.name}."
        raise NoScript(msg)


def resolve(expected: Expect) -> Expectation:
    """Return the expectation that a case names.

    Raises
    ------
    ValueError
        When there is none of this name, or it has no such parameter.
    """
    if expected.name not in _KINDS:
        msg = f"There is no expectation {expected.name!r}: {did_you_mean(expected.name, _KINDS)}"
        raise ValueError(msg)
    kind = _KINDS[expected.name]
    known = [field.name for field in fields(kind)]
    for parameter, _ in expected.parameters:
        if parameter not in known:
            msg = f"The expectation {expected.name!r} has no parameter {parameter!r}: {did_you_mean(parameter, known)}"
            raise ValueError(msg)
    try:
        return kind(**dict(expected.parameters))
    except TypeError as error:
        msg = f"The expectation {expected.name!r} lacks a parameter: {error}."
        raise ValueError(msg) from error


def has_option_for_errors(context: Context) -> bool:
    """Return whether the subject has an option that asks for an error where the norm is not finite."""
    return "error_if_nonfinite" in context.subject.features


def may_raise(context: Context, prediction: Prediction) -> bool:
    """Return whether the norm is none that the dtype holds, and no option says when that is an error."""
    bounds = prediction.norms[0]
    held = bounds is not None and bounds.upper <= FORMATS[narrowest(context.case)].largest
    return not held and not has_option_for_errors(context)
