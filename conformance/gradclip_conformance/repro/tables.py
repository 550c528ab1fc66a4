"""Write the lines of a script that calls a framework directly, as a table for its adapter says.

Each of our adapters for a framework has a table, `gradclip_adapters/scripts/<adapter>.toml`, with these keys. A
`[[script]]` lists the subjects that it is about, and may override each key for them.

================= ====================================================================================
`imports`         the lines that import the framework
`tensor`          an expression that makes a gradient from `$values` and `$dtype`
`strided` ...     for each other layout, an expression that makes a gradient from `$tensor`
`missing`         an expression with the shape of a parameter whose gradient is None
`subjects`        the names of the subjects of a `[[script]]`
`before`          the lines before the clip
`clip`            the lines that clip the list `gradients`
`after`           the lines after the clip
`result`          `EXPRESSION for VARIABLE in LIST`, which makes the list `results` if no lines above do
`numpy`           an expression that converts `$result` to an array that NumPy can read
`bfloat16`        the same for bfloat16, which NumPy cannot read
`excluding`       the part of the call that excludes gradients
`compiled`        the mode of the subject's compiled version
`compiled_before` the lines between the two calls
================= ====================================================================================

The texts of a table may hold these names:

================= ====================================================================================
`$tensor`, `$ndim` a contiguous gradient, and the number of its axes; `$axes` lists them in reverse
`$function`       the subject's name without its mode; `$mode` is the mode, which is the text in the brackets
`$module`, `$name` the module and the name of a plain function
`$clip_norm` ...  an option of the case (`$learning_rate` is 1.0 and `$min` is `-max` unless it has them)
`$weights`         the list of the parameters, for a unitwise clip
`$arguments`      `clip_norm=...`, or `max=...` and, if the case has it, `min=...`
`$keywords`       the options `norm_type`, `error_if_nonfinite`, `eps` and `axes` of the case, each after a comma
`$options`        all options as keyword arguments, with `need_clip` if the subject has and needs this argument
`$norm`           `norm = ` if the script checks the returned norm
`$need_clip`      the list of flags, True for each included gradient
`$excluding`      the table's text `excluding` if a gradient is excluded
`$each in $gradients` the loop over the gradients, and over `need_clip` if a gradient is excluded
`$gradient`       the loop variable `gradient`, or the table's expression `missing` if it is None
`$unless_none`    a prefix that gives 0.0 instead of an expression with `gradient` if it is None
`$if_it_exists`   the condition that leaves None out of a comprehension
`$existing`       the gradients that are not None
`$parameters`     the list `parameters`, an iterator over it, or its only element, as the case asks
================= ====================================================================================
"""

from __future__ import annotations

import keyword
import math
import unicodedata
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from string import Template

import gradclip_adapters
from gradclip_adapters import registry
from gradclip_adapters.arrays import convert_thresholds, read_axes
from gradclip_adapters.contract import Gradient, Subject

from ..cases.literals import NoScript, write_array, write_literal
from ..cases.model import Case
from ..cases.toml_files import check_document, read_toml
from ..judge.judging import choose_expectation
from ..judge.model import ScriptCall, join_lines
from ..oracle.formats import read_float64_values
from .calls import Calls, pass_case, split_units
from .following import add_following_call, make_following_case

__all__ = ["SCRIPTS", "find_template", "has_table", "write_calls"]

SCRIPTS = Path(gradclip_adapters.__file__).parent / "scripts"
SCHEMA = Path(__file__).parent / "schemas" / "scripts.json"

#: The name of the table of plain functions. No adapter has this name.
FUNCTIONS = "function"

#: The results, if a table has no other expression for them.
RESULT = "result for result in results"

#: More gradients than this are written out only if they are all equal.
LISTED = 32

#: How a script writes a threshold of each kind of the option `threshold_as`.
THRESHOLDS = {
    "numpy-float16": "np.float16({})",
    "numpy-float32": "np.float32({})",
    "numpy-float64": "np.float64({})",
    "array": "np.array({}, float)",
    "array-of-one": "np.array([{}], float)",
    "bool": "bool({})",
    "text": "str({})",
}

#: The options that `$keywords` lists.
KEYWORDS = ("norm_type", "error_if_nonfinite", "eps", "layers", "axes")

#: The options that a script writes as the kinds of its thresholds and flags, and as the way of its call.
LEFT_OUT = ("as_generator", "followed", "threshold_as", "tensor_threshold", "flags")

#: How a script writes a flag of each kind of the option `flags`.
FLAGS = {"bool": "{}", "numpy": "np.bool_({})", "int": "int({})"}

#: The options of cases that a script may pass by their names.
OPTIONS = frozenset(
    {"clip_norm", "clip_factor", "eps", "error_if_nonfinite", "layers", "learning_rate", "max", "min", "norm_type"}
    | {"as_single", "axes", "compiled", "reused", "threads"}
)


def write_calls(adapter: str, known: Mapping[str, str], case: Case, subject: Subject, *, compiles: bool) -> Calls:
    """Return the lines that call the framework itself, as the subject's entries in our table say."""
    compiled = None
    if compiles:
        compiled = _write_call(case, subject, find_template(adapter, _find_compiled(subject.name, known)))
    imports = _fill(known["imports"], _choose_names(case, subject, known))
    return Calls(imports, _write_call(case, subject, known), compiled, known.get("compiled_before", ""))


def has_table(adapter: str) -> bool:
    """Return whether one of our tables says how to call the framework of an adapter directly."""
    # Look the name up. Never use it as a path.
    known = [path.stem for path in SCRIPTS.glob("*.toml") if path.stem != FUNCTIONS]
    return registry.find_kind(adapter) == "function" or adapter in known


def _fill(text: str, names: Mapping[str, str]) -> str:
    """Return a text of a table with values in place of its names."""
    try:
        return Template(text).substitute(names)
    except (KeyError, ValueError) as error:
        msg = f"Our table of this adapter has a line that this case cannot fill ({error}): {text.strip()[:100]!r}"
        raise NoScript(msg) from error


def _write_call(case: Case, subject: Subject, known: Mapping[str, str]) -> ScriptCall:
    """Return the lines of a subject's call, as a table says, and of the call that follows if the case has one."""
    asked, case = case, pass_case(case, subject)
    if "followed" in case.options:
        following = make_following_case(case)
        alone = replace(case, options={name: value for name, value in case.options.items() if name != "followed"})
        first, again = _write_call(alone, subject, known), _write_call(following, subject, known)
        kept = f"[{known.get('result', RESULT)}]"
        results, _ = _write_results(alone, {**known, "result": "result for result in kept"}, subject)
        returns_norm = choose_expectation(case).about == "norm"
        return add_following_call(first, again, kept, results, returns_norm=returns_norm)
    names = _choose_names(case, subject, known)
    before, clip, after = (_fill(known.get(part, ""), names).strip() for part in ("before", "clip", "after"))
    call = ScriptCall(
        join_lines(f"gradients = {_write_gradients(case, known)}", *_write_repeated(case)),
        before,
        clip,
        after,
        *_write_results(case, known, subject),
    )
    return split_units(asked, subject, call)


def _find_compiled(subject: str, known: Mapping[str, str]) -> str:
    """Return the name of the compiled version of a subject."""
    if "compiled" not in known:
        msg = f"The suite does not know how to compile {subject}: its entry [[script]] has no `compiled`."
        raise NoScript(msg)
    function, _, _ = subject.partition("[")
    return f"{function}{known['compiled']}"


def _write_results(case: Case, known: Mapping[str, str], subject: Subject) -> tuple[str, str]:
    """Return two lines: one lists the results, one the passed gradients, both as NumPy arrays."""
    dtypes = {gradient.array.dtype for gradient in case.gradients if gradient.array is not None}
    convert = known.get("bfloat16", "$result") if "bfloat16" in dtypes else known.get("numpy", "$result")
    exists = all(gradient.array is not None for gradient in case.gradients)
    if not choose_expectation(case).needs_numbers:
        convert = "$result"

    def write_line(result: str, where: str, exists: bool) -> str:
        converted = _fill(convert, {"result": result})
        if converted != result and not exists:
            converted = f"None if {result} is None else {converted}"
        return f"results = [{converted} for {where}]"

    result, _, where = known.get("result", RESULT).partition(" for ")
    results = write_line(result, where, exists or "optimizer" in subject.features)
    nothing = "results = [result for result in results]"
    return "" if results == nothing else results, write_line("gradient", "gradient in gradients", exists)


def find_template(adapter: str, subject: str) -> dict[str, str]:
    """Return the entries for a subject in our table of an adapter: the common keys, and the subject's own."""
    if registry.find_kind(adapter) == "function":
        return {**_read_table(FUNCTIONS)[1], **_split_function_name(adapter)}
    entries, common = _read_table(adapter)
    if subject not in entries:
        msg = f"{adapter}.toml has no [[script]] whose `subjects` list {subject!r}."
        raise NoScript(msg)
    return {**common, **entries[subject]}


def _read_table(name: str) -> tuple[dict[str, dict[str, str]], dict[str, str]]:
    """Return the keys of each subject in a table, including the keys that all its subjects share."""
    path = SCRIPTS / f"{name}.toml"
    common = read_toml(path)
    check_document(common, SCHEMA, path.name)
    entries = {}
    for entry in common.pop("script", []):
        names = entry.pop("subjects")
        entries.update(dict.fromkeys(names, entry))
    return entries, common


def _split_function_name(target: str) -> dict[str, str]:
    """Return the module and the name of a plain function that was checked as `module:name` or `file.py:name`.

    The target is the path by which the function was found. The function's own name may be misleading: a lambda is
    `<lambda>`, a bound method has the name of the function in its class, and a `partial` the name of the class.
    """
    module, _, name = target.partition(":")
    # The script runs in the folder of such a file, as `gradclip check` did.
    module = module.removeprefix("./").removesuffix(".py")
    for dotted in (module, name):
        if not all(map(_is_plain_name, dotted.split("."))):
            msg = (
                f"{target!r} is not a dotted name of the form module:name, so no script can import it. Give the "
                "function a name in a module, and check module:name."
            )
            raise NoScript(msg)
    return {"module": module, "name": name}


def _is_plain_name(name: str) -> bool:
    """Return whether a text is an identifier in Python's own spelling, and not a keyword."""
    return name.isidentifier() and not keyword.iskeyword(name) and unicodedata.normalize("NFKC", name) == name


def _choose_names(case: Case, subject: Subject, known: Mapping[str, str]) -> dict[str, str]:
    """Return the value of each name in a template."""
    # The subject's name comes from the table, or is not used: plain functions use `module` and `name`.
    function, _, mode = subject.name.partition("[")
    if unknown := sorted(set(case.options) - OPTIONS - set(LEFT_OUT)):
        msg = f"No script passes the option {unknown[0]!r}."
        raise NoScript(msg)
    options = {key: write_literal(value) for key, value in case.options.items() if key not in LEFT_OUT}
    if "threshold_as" in case.options:
        options = convert_thresholds(options, THRESHOLDS[case.options["threshold_as"]].format)
    if "tensor_threshold" in case.options:
        options = convert_thresholds(options, lambda value: _write_scalar(value, case, known))
    if "axes" in case.options:
        options["axes"] = str(read_axes(case.options))
    flag = FLAGS[case.options.get("flags", "bool")]
    need_clip = f"[{', '.join(flag.format(write_literal(one.need_clip)) for one in case.gradients)}]"
    included = all(gradient.need_clip for gradient in case.gradients)
    told = "excludes" in subject.features and not (included and "optional_flags" in subject.features)
    all_options = {**options, **({"need_clip": need_clip} if told else {})}
    weights = ""
    if any(gradient.parameter is not None for gradient in case.gradients):
        given = [replace(gradient, array=gradient.parameter) for gradient in case.gradients]
        weights = all_options["parameters"] = _write_gradients(replace(case, gradients=tuple(given)), known)
    exists = all(gradient.array is not None for gradient in case.gradients)
    if_it_exists = "" if exists else " if gradient is not None"
    keywords = [f", {key}={options[key]}" for key in KEYWORDS if key in options]
    return {
        "learning_rate": "1.0",
        "min": write_literal(-float(case.options.get("max", math.nan))),
        **options,
        "function": function.strip(),
        "mode": mode.rstrip("]"),
        "uniform": str(case.options.get("layers") != "by size"),
        "module": known.get("module", ""),
        "name": known.get("name", ""),
        "arguments": ", ".join(f"{key}={options[key]}" for key in ("clip_norm", "max", "min") if key in options),
        "keywords": "".join(keywords),
        "options": ", ".join(f"{key}={value}" for key, value in all_options.items()),
        "norm": "norm = " if choose_expectation(case).about == "norm" else "",
        "need_clip": need_clip,
        "excluding": "" if included else known.get("excluding", "").replace("$need_clip", need_clip),
        "each": "gradient" if included else "gradient, need_clip",
        "gradients": "gradients" if included else f"zip(gradients, {need_clip})",
        "gradient": "gradient" if exists else f"({known['missing']} if gradient is None else gradient)",
        "unless_none": "" if exists else "0.0 if gradient is None else ",
        "if_it_exists": if_it_exists,
        "existing": "gradients" if exists else f"[gradient for gradient in gradients{if_it_exists}]",
        "parameters": _write_parameters(case),
        "weights": weights,
    }


def _write_parameters(case: Case) -> str:
    if case.options.get("as_single"):
        return "parameters[0]"
    return "iter(parameters)" if case.options.get("as_generator") else "parameters"


def _write_scalar(value: str, case: Case, known: Mapping[str, str]) -> str:
    """Return a tensor without axes, made as the table makes gradients."""
    return _fill(known["tensor"], {"values": value, "dtype": case.dtype})


def _write_gradients(case: Case, known: Mapping[str, str]) -> str:
    """Return the list of the gradients, written out."""
    if any(gradient.rows is not None for gradient in case.gradients):
        msg = f"{case.id} passes a sparse gradient. No script does that."
        raise NoScript(msg)
    written = [_write_gradient(gradient, known) for gradient in case.gradients]
    if len(written) <= LISTED:
        line = "[" + ", ".join(written) + "]"
        return line if len(line) <= 100 or len(written) < 2 else "[\n    " + ",\n    ".join(written) + ",\n]"
    if len(set(written)) == 1:
        return f"[{written[0]} for _ in range({len(written)})]"
    msg = f"{case.id} has {len(written)} different gradients, too many to write out."
    raise NoScript(msg)


def _write_repeated(case: Case) -> list[str]:
    """Return a line for each gradient that is the same tensor as an earlier one."""
    pairs = [(i, gradient.same_as) for i, gradient in enumerate(case.gradients)]
    return [f"gradients[{i}] = gradients[{earlier}]" for i, earlier in pairs if earlier is not None]


def _write_gradient(gradient: Gradient, known: Mapping[str, str]) -> str:
    if gradient.array is None:
        return "None"
    values = write_array(read_float64_values(gradient.array).reshape(gradient.array.shape))
    contiguous = _fill(known["tensor"], {"values": values, "dtype": gradient.array.dtype})
    dimensions = len(gradient.array.shape)
    # An array without axes has one layout only, and a transposed one with a single axis is contiguous.
    if gradient.layout == "contiguous" or dimensions == 0 or (dimensions == 1 and gradient.layout == "transposed"):
        return contiguous
    if gradient.layout not in known:
        msg = f"The suite does not know how to make a gradient with the layout {gradient.layout!r}."
        raise NoScript(msg)
    axes = str([*reversed(range(dimensions))])
    return _fill(known[gradient.layout], {"tensor": contiguous, "ndim": str(dimensions), "axes": axes})
