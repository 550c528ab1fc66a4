"""A script of one cell that needs NumPy and the framework only, and that fails by itself where the framework does.

How a framework is called stands beside its adapter, as data: `gradclip_adapters/scripts/<adapter>.toml`. A file gives
`imports`, `tensor` (an expression for a gradient of `$values` and `$dtype`), `strided` and `transposed` (the same in
another layout, of `$tensor`) and `missing` (what gives the shape of the parameter of a gradient that is None); and for
each pattern of subjects `clip`, the lines that clip the list `gradients`. Lines that stand before and after them are
`before` and `after`. `result` (`EXPRESSION for VARIABLE in LIST`) makes the list `results`, where they do not, and
`numpy` or `bfloat16` an array that NumPy understands of a `$result` and of one of that dtype. A subject may have any of
these of its own, and `compiled`, the mode of the subject that is this one compiled, with `compiled_before`, the lines
between the two calls. In the lines:

================= ====================================================================================
`$function`       the subject's name without its mode; `$mode` is the mode, what stands in its brackets
`$clip_norm` ...  an option of the case (`$learning_rate` is 1.0 and `$min` is `-max` unless it has them)
`$arguments`      `clip_norm=...`, or `max=...` and `min=...` where the case has it
`$keywords`       the options `norm_type`, `error_if_nonfinite` and `eps` of the case, each after a comma
`$options`        all options as keyword arguments, and `need_clip` where the subject can exclude and is told so
`$norm`           `norm = ` where the norm that is returned is looked at
`$need_clip`      which gradients are included, as a list
`$excluding`      the file's text of that name, where a gradient is excluded
`$each in $gradients` the loop over the gradients, with `need_clip` where one is excluded
`$gradient`       the loop variable `gradient`, or what stands for it where it is None
`$unless_none`    what keeps an expression with `gradient` from being reckoned where it is None
`$if_it_exists`   what leaves it out of a comprehension
`$existing`       the gradients that are not None
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

from ..cases import regressions as found
from ..cases.catalogue import all_cases
from ..cases.literals import NoScript, array_literal, literal
from ..cases.model import Case
from ..cases.patterns import matches
from ..cases.readable import readable_input
from ..judge.judging import expectation_of
from ..judge.model import Script, ScriptCall
from ..oracle.formats import float64_values
from ..run.plan import Selection, plan_cells
from .replay import shown_case

__all__ = ["SCRIPTS", "NoScript", "script"]

SCRIPTS = Path(gradclip_adapters.__file__).parent / "scripts"

#: More gradients than this are written out only where they are all alike.
LISTED = 32


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
    asked = _case_of(cell, subject)
    case = shown_case(asked, expectation_of(asked), cell)
    expectation = expectation_of(case)
    known = _template(header.adapter, cell.subject)
    raised = isinstance(cell.observed, Mapping) and "raised" in cell.observed
    compiled = None
    if expectation.compiles:
        compiled = _call(case, subject, _template(header.adapter, _compiled(cell.subject, known)))
    between = known.get("compiled_before", "")
    body = expectation.write_script(Script(case, subject, _call(case, subject, known), raised, compiled, between))
    special = sorted(set(re.findall(r"\b(?:nan|inf)\b", body)))
    imports = [f"from math import {', '.join(special)}\n"] if special else []
    imports += ["import sys\nfrom concurrent.futures import ThreadPoolExecutor\n"] if "ThreadPool" in body else []
    imports += ["import numpy as np"] if "np." in body else []
    return "\n".join(
        [
            _docstring(header, cell),
            "",
            *imports,
            Template(known["imports"]).substitute(_names(case, subject, known)).strip(),
            "",
            body,
            "",
        ]
    )


def _call(case: Case, subject: Subject, known: Mapping[str, str]) -> ScriptCall:
    """The lines of a subject's call, as a file says."""
    names = _names(case, subject, known)
    before, clip, after = (
        Template(known.get(part, "")).substitute(names).strip() for part in ("before", "clip", "after")
    )
    return ScriptCall(f"gradients = {_gradients(case, known)}", before, clip, after, *_results(case, known, subject))


def _compiled(subject: str, known: Mapping[str, str]) -> str:
    """The subject that is another compiled."""
    if "compiled" not in known:
        msg = f"Nobody has said how {subject} is compiled: its entry [[script]] has no `compiled`."
        raise NoScript(msg)
    function, _, _ = subject.partition("[")
    return f"{function}{known['compiled']}"


def _docstring(header: Header, cell: Cell) -> str:
    rule = next(rule for rule in rules.load() if rule.id == cell.rule)
    source = f"{cell.subject}, {header.heading}, case {cell.case}"
    texts = [f"{rule.id} ({rule.level}): {rule.statement}", "", source]
    lines = [line for text in texts for line in textwrap.wrap(text, 112, break_on_hyphens=False) or [""]]
    return 'r"""' + "\n".join(lines) + '\n"""'


def _results(case: Case, known: Mapping[str, str], subject: Subject) -> tuple[str, str]:
    """The lines that make a list of the results, and one of the gradients that were passed, as NumPy takes them."""
    dtypes = {gradient.array.dtype for gradient in case.gradients if gradient.array is not None}
    convert = known.get("bfloat16", "$result") if "bfloat16" in dtypes else known.get("numpy", "$result")
    exists = all(gradient.array is not None for gradient in case.gradients)
    if not expectation_of(case).needs_numbers:
        convert = "$result"

    def line(result: str, where: str, exists: bool) -> str:
        converted = Template(convert).substitute(result=result)
        if converted != result and not exists:
            converted = f"None if {result} is None else {converted}"
        return f"results = [{converted} for {where}]"

    result, _, where = known.get("result", "result for result in results").partition(" for ")
    results = line(result, where, exists or "optimizer" in subject.features)
    nothing = "results = [result for result in results]"
    return "" if results == nothing else results, line("gradient", "gradient in gradients", exists)


def _case_of(cell: Cell, subject: Subject) -> Case:
    """The case of a cell as its subject was asked, the same numbers as in the record."""
    case = next((case for case in all_cases() if case.id == cell.case), None)
    if case is None and found.is_find(cell.case) and cell.input is not None:
        case = found.from_record(cell.case, cell.input)
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


def _template(adapter: str, subject: str) -> dict[str, str]:
    """What is said of a subject: what is common to an adapter's scripts, and its own."""
    name = "function" if registry.kind_of(adapter) == "function" else adapter
    path = SCRIPTS / f"{name}.toml"
    if not path.exists():
        known = ", ".join(sorted(path.stem for path in SCRIPTS.glob("*.toml") if path.stem != "function"))
        msg = (
            f"How {adapter!r} is called without the suite is not known here: there are scripts of {known} and plain "
            "functions. The input is in the record, as `input` of the cell, or printed by `gradclip show CASE`."
        )
        raise NoScript(msg)
    common = tomllib.loads(path.read_text(encoding="utf-8"))
    for entry in common.pop("script"):
        if matches(entry["subject"], subject):
            return {**common, **entry}
    msg = f"{path.name} says nothing of {subject}: give it an entry [[script]]."
    raise NoScript(msg)


def _names(case: Case, subject: Subject, known: Mapping[str, str]) -> dict[str, str]:
    """What stands for each name in a template."""
    function, _, mode = subject.name.partition("[")
    module, _, name = subject.name.partition(":")
    options = {key: literal(value) for key, value in case.options.items() if key != "as_generator"}
    need_clip = str([gradient.need_clip for gradient in case.gradients])
    included = all(gradient.need_clip for gradient in case.gradients)
    told = "excludes" in subject.features and not (included and "optional_flags" in subject.features)
    all_options = {**options, **({"need_clip": need_clip} if told else {})}
    exists = all(gradient.array is not None for gradient in case.gradients)
    if_it_exists = "" if exists else " if gradient is not None"
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
        "norm": "norm = " if expectation_of(case).about == "norm" else "",
        "need_clip": need_clip,
        "excluding": "" if included else known.get("excluding", "").replace("$need_clip", need_clip),
        "each": "gradient" if included else "gradient, need_clip",
        "gradients": "gradients" if included else f"zip(gradients, {need_clip})",
        "gradient": "gradient" if exists else f"({known['missing']} if gradient is None else gradient)",
        "unless_none": "" if exists else "0.0 if gradient is None else ",
        "if_it_exists": if_it_exists,
        "existing": "gradients" if exists else f"[gradient for gradient in gradients{if_it_exists}]",
        "parameters": "iter(parameters)" if case.options.get("as_generator") else "parameters",
    }


def _gradients(case: Case, known: Mapping[str, str]) -> str:
    """The list of the gradients, written out."""
    if any(gradient.same_as is not None or gradient.rows is not None for gradient in case.gradients):
        msg = f"A script does not pass one gradient twice, or a sparse one, as {case.id} does."
        raise NoScript(msg)
    written = [_gradient(gradient, known) for gradient in case.gradients]
    if len(written) <= LISTED:
        line = "[" + ", ".join(written) + "]"
        return line if len(line) <= 100 or len(written) < 2 else "[\n    " + ",\n    ".join(written) + ",\n]"
    if len(set(written)) == 1:
        return f"[{written[0]} for _ in range({len(written)})]"
    msg = f"{case.id} has {len(written)} different gradients, too many to write out."
    raise NoScript(msg)


def _gradient(gradient: Gradient, known: Mapping[str, str]) -> str:
    if gradient.array is None:
        return "None"
    values = array_literal(float64_values(gradient.array).reshape(gradient.array.shape))
    contiguous = Template(known["tensor"]).substitute(values=values, dtype=gradient.array.dtype)
    if gradient.layout == "contiguous":
        return contiguous
    if gradient.layout not in known:
        msg = f"Nobody has said how a gradient is made that lies in memory {gradient.layout}."
        raise NoScript(msg)
    return Template(known[gradient.layout]).substitute(tensor=contiguous, ndim=len(gradient.array.shape))
