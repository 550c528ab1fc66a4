"""Define the parts of a script that depend on what it calls: a framework, or an adapter."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gradclip_adapters.arrays import make_following_call
from gradclip_adapters.contract import EntryPoint, Gradient
from gradclip_adapters.operations import OPERATIONS

from ..cases.literals import NoScript
from ..cases.model import Case
from ..cases.stacking import Stacking, count_examples
from ..judge.model import ScriptCall, join_lines

__all__ = ["Calls", "add_following_call", "make_following_case", "pass_case", "split_units"]


@dataclass(frozen=True)
class Calls:
    """The lines of a script before its calls, and those of its calls."""

    #: The imports, and the functions that the calls use.
    top: str
    call: ScriptCall
    #: The same call inside the framework's compiler, if a script makes it, too.
    compiled: ScriptCall | None = None


#: A line that takes tensors apart into their units.
UNITS = "results = [unit for array in results for unit in ([array] if array is None or array.ndim < 2 else {})]"


def pass_case(case: Case, subject: EntryPoint) -> Case:
    """Return the case with the gradients that a call passes."""
    return replace(case, gradients=_list_passed_gradients(case, subject))


def split_units(case: Case, subject: EntryPoint, call: ScriptCall) -> ScriptCall:
    """Return the lines of a call whose results are the units of the tensors, if the clip is unitwise."""
    if not OPERATIONS[case.operation].divides_gradients:
        return call
    line = UNITS.format("np.moveaxis(array, -1, 0)" if "units_last" in subject.features else "array")
    return replace(call, results=join_lines(call.results, line), inputs=join_lines(call.inputs, line))


def make_following_case(case: Case) -> Case:
    """Return the case of the call that follows, with other elements and other options."""
    call = make_following_call(case.call(""))
    return replace(case, gradients=call.gradients, options=call.options)


def add_following_call(first: ScriptCall, again: ScriptCall) -> ScriptCall:
    """Return the lines of the first call, then of the second one. The results of the first one are read at the end."""
    clip = join_lines(
        first.clip,
        "# Another call must not change the results of the first one.",
        "kept = gradients, results, norm",
        again.gradients,
        again.clip,
        "gradients, results, norm = kept",
    )
    return replace(first, clip=clip)


def _list_passed_gradients(case: Case, subject: EntryPoint) -> tuple[Gradient, ...]:
    """Return the gradients that a call passes. A script cannot take the sums of several examples apart."""
    if OPERATIONS[case.operation].sums_examples and count_examples(case.gradients) > 1:
        msg = f"{case.id} has several examples. No script takes their sum apart."
        raise NoScript(msg)
    return Stacking(subject).stack(case.gradients)
