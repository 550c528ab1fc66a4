"""A script of one cell that needs NumPy and the framework only, and that fails by itself where the framework does.

How a framework is called stands beside its adapter, as data: `gradclip_adapters/scripts/<adapter>.toml`. A file gives
`imports`, `tensor` (an expression for a gradient of `$values` and `$dtype`), `missing` (what gives the shape of the
parameter of a gradient that is None) and `numpy` (what makes a NumPy array of `result`); and for each pattern of
subjects `clip`, the body of a function that returns the clipped gradients and the norm, None if there is none.
A subject may have a `tensor`, `missing` or `numpy` of its own. In a body:

================= ====================================================================================
`$function`       the subject's name without its mode; `$mode` is the mode, what stands in its brackets
`$clip_norm` ...  an option of the case (`$learning_rate` is 1.0 and `$min` is `-max` unless it has them)
`$arguments`      `clip_norm=...`, or `max=...` and `min=...` where the case has it
`$keywords`       the options `norm_type`, `error_if_nonfinite` and `eps` of the case, each after a comma
`$options`        all options as keyword arguments, and `need_clip` where the subject can exclude
`$need_clip`      which gradients are included, as a list
`$gradient`       the loop variable `gradient`, or what stands for it where it is None
`$parameters`     the list `parameters`, as an iterator where the case asks for a generator
================= ====================================================================================
"""

from __future__ import annotations

import math
import re
import textwrap
import tomllib
from collections.abc import Mapping
from pathlib import Path
from string import Template

import gradclip_adapters
from gradclip_adapters import registry
from gradclip_adapters.contract import Gradient, Subject
from gradclip_adapters.wire import subject_from_json
from gradclip_reports.records import Cell, Header
from gradclip_spec import rules

from .case import Case
from .cases import all_cases
from .literals import NoScript, array_literal, literal
from .patterns import matches
from .plan import Selection, plan_cells
from .recorded import shown_case
from .reproduce_checks import check_of
from .show import float64_values, readable_input

__all__ = ["SCRIPTS", "NoScript", "script"]

SCRIPTS = Path(gradclip_adapters.__file__).parent / "scripts"

#: More gradients than this are written out only where they are all alike.
LISTED = 16


def script(header: Header, cell: Cell) -> str:
    """The script of a cell.

    Parameters
    ----------
    header, cell
        Of a record.

    Raises
    ------
    NoScript
        When nobody has said how the subject is called by itself, or the case is none that a script can show.
    """
    subject = next(each for each in map(subject_from_json, header.subjects) if each.name == cell.subject)
    case = shown_case(_case_of(cell, subject), cell)
    known, template = _template(header.adapter, cell.subject)
    check = check_of(case, subject, raised=isinstance(cell.observed, Mapping) and "raised" in cell.observed)
    names = _names(case, subject, known["missing"])
    rule = next(rule for rule in rules.load() if rule.id == case.rule)
    source = f"{cell.subject}, {header.framework['name']} {header.framework['version']}, case {cell.case}"
    docstring = [f"{rule.id} ({rule.level}): {rule.statement}", "", source]
    wrapped = [part for line in docstring for part in textwrap.wrap(line, 112) or [""]]
    body = textwrap.indent(Template(template).substitute(names).strip(), "    ")
    listed = _gradients(case, known["tensor"])
    needed = "from math import inf, nan\n\n" if re.search(r"\b(nan|inf)\b", listed + body + check) else ""
    lines = [
        'r"""' + "\n".join(wrapped) + '\n"""\n',
        f"{needed}import numpy as np",
        Template(known["imports"]).substitute(names) + "\n",
        f"gradients = {listed}\n\n",
        f"def call():\n{body}\n\n",
        Template(check).substitute(rule=rule.id, convert=_convert(known["numpy"], case)),
    ]
    return "\n".join(lines) + "\n"


def _convert(numpy: str, case: Case) -> str:
    """The line that makes NumPy arrays of the results, where they are none."""
    if numpy == "result":
        return ""
    exists = all(gradient.array is not None for gradient in case.gradients)
    return f"\nresults = [{numpy if exists else f'None if result is None else {numpy}'} for result in results]"


def _case_of(cell: Cell, subject: Subject) -> Case:
    """The case of a cell as its subject was asked, the same numbers as in the record."""
    case = next((case for case in all_cases() if case.id == cell.case), None)
    if case is None:
        msg = (
            f"This version of the suite has no case {cell.case!r}: make a script with the version that made the record."
        )
        raise NoScript(msg)
    (planned,) = plan_cells([subject], [case], Selection())
    if planned.missing is not None:
        raise NoScript(planned.missing)
    if cell.input is not None and cell.input != readable_input(planned.case):
        msg = f"The case {cell.case} had other numbers in the version of the suite that made the record: run it again."
        raise NoScript(msg)
    return planned.case


def _template(adapter: str, subject: str) -> tuple[dict[str, str], str]:
    """What is common to an adapter's scripts, and the body for a subject."""
    name = "function" if registry.kind_of(adapter) == "function" else adapter
    path = SCRIPTS / f"{name}.toml"
    if not path.exists():
        msg = f"Nobody has said how {adapter!r} is called by itself: scripts/ beside the adapters has no {path.name}."
        raise NoScript(msg)
    common = tomllib.loads(path.read_text(encoding="utf-8"))
    for entry in common.pop("script"):
        if matches(entry["subject"], subject):
            return {**common, **entry}, entry["clip"]
    msg = f"{path.name} says nothing of {subject}: give it an entry [[script]]."
    raise NoScript(msg)


def _names(case: Case, subject: Subject, missing: str) -> dict[str, str]:
    """What stands for each name in a template."""
    function, _, mode = subject.name.partition("[")
    module, _, name = subject.name.partition(":")
    options = {key: literal(value) for key, value in case.options.items() if key != "as_generator"}
    need_clip = str([gradient.need_clip for gradient in case.gradients])
    if case.gradients and all(gradient.need_clip for gradient in case.gradients):
        need_clip = f"[True] * {len(case.gradients)}"
    all_options = {**options, **({"need_clip": need_clip} if "excludes" in subject.features else {})}
    exists = all(gradient.array is not None for gradient in case.gradients)
    keywords = [f", {key}={options[key]}" for key in ("norm_type", "error_if_nonfinite", "eps") if key in options]
    return {
        "learning_rate": "1.0",
        "min": literal(-float(case.options.get("max", math.nan))),
        **options,
        "function": function.strip(),
        "mode": mode.rstrip("]"),
        "module": module,
        "name": name,
        "arguments": ", ".join(f"{key}={options[key]}" for key in ("clip_norm", "max", "min") if key in options),
        "keywords": "".join(keywords),
        "options": ", ".join(f"{key}={value}" for key, value in all_options.items()),
        "need_clip": need_clip,
        "gradient": "gradient" if exists else f"({missing} if gradient is None else gradient)",
        "parameters": "iter(parameters)" if case.options.get("as_generator") else "parameters",
    }


def _gradients(case: Case, tensor: str) -> str:
    """The list of the gradients, written out."""
    for gradient in case.gradients:
        if gradient.same_as is not None or gradient.layout != "contiguous":
            msg = f"A script cannot show how the gradients of {case.id} lie in memory."
            raise NoScript(msg)
    written = [_gradient(gradient, tensor) for gradient in case.gradients]
    if len(written) <= LISTED:
        return "[" + ", ".join(written) + "]" if len(written) < 2 else "[\n    " + ",\n    ".join(written) + ",\n]"
    if len(set(written)) == 1:
        return f"[{written[0]} for _ in range({len(written)})]"
    msg = f"{case.id} has {len(written)} different gradients, too many to write out."
    raise NoScript(msg)


def _gradient(gradient: Gradient, tensor: str) -> str:
    if gradient.array is None:
        return "None"
    values = array_literal(float64_values(gradient.array).reshape(gradient.array.shape))
    return Template(tensor).substitute(values=values, dtype=gradient.array.dtype)
