"""Write a script that makes another call before it reads the results of the first one."""

from __future__ import annotations

from dataclasses import replace

from gradclip_adapters.arrays import make_following_call

from ..cases.model import Case
from ..judge.model import ScriptCall, join_lines

__all__ = ["add_following_call", "make_following_case"]


def make_following_case(case: Case) -> Case:
    """Return the case of the call that follows, with other elements and other options."""
    call = make_following_call(case.call(""))
    return replace(case, gradients=call.gradients, options=call.options)


def add_following_call(
    first: ScriptCall, again: ScriptCall, kept: str, results: str, *, returns_norm: bool
) -> ScriptCall:
    """Return the lines of the first call, then of the second one, and then those that read the first results.

    `kept` lists the results without reading them, and `results` reads the list `kept`.
    """
    # The second call has the same variables, so keep the first call's.
    after = [
        "# Another call must not change the results of the first one.",
        f"kept, passed{', first_norm' if returns_norm else ''} = {kept}, gradients{', norm' if returns_norm else ''}",
        *(again.gradients, again.before, again.clip, again.after),
        "gradients = passed",
        "norm = first_norm" if returns_norm else "",
    ]
    return replace(first, after=join_lines(first.after, *after), results=results)
