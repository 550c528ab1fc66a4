"""Write the lines of a script that calls a framework, or a plain function, directly."""

from __future__ import annotations

import keyword
import unicodedata
from dataclasses import replace

from gradclip_adapters import registry
from gradclip_adapters.arrays import HOW, convert_thresholds, list_parameters, make_following_call, read_axes
from gradclip_adapters.contract import EntryPoint, Gradient
from gradclip_adapters.operations import OPERATIONS

from ..cases.literals import NoScript, write_array, write_literal
from ..cases.model import Case
from ..judge.judging import choose_expectation
from ..judge.model import ScriptCall, join_lines
from ..oracle.formats import read_float64_values
from .contract import Calls, pass_case, split_units
from .source import FUNCTION, Function, Source, find_source, read_source

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

#: How a script writes a flag of each kind of the option `flags`.
FLAGS = {"bool": "{}", "numpy": "np.bool_({})", "int": "int({})"}

#: The options that a script passes by their names.
PASSED = frozenset(
    {"axes", "clip_norm", "clip_factor", "eps", "error_if_nonfinite", "layers", "learning_rate", "max", "min"}
    | {"norm_type"}
)


def write_calls(adapter: str, case: Case, entry_point: EntryPoint, *, compiles: bool) -> Calls:
    """Return the lines that call the framework itself."""
    if registry.find_kind(adapter) == "function":
        source = read_source(FUNCTION)
        module, name = _split_function_name(adapter)
        call, used = _write_call(case, entry_point, source, f"{module}.{name}")
        return Calls(source.write(used, f"import {module}"), call)
    found = find_source(adapter, entry_point.name)
    if found is None:
        msg = f"No function of gradclip_adapters.scripts calls {entry_point.name!r} of {adapter}."
        raise NoScript(msg)
    compiled = found.find_function(entry_point.name, compiled=True) if compiles else None
    call, used = _write_call(case, entry_point, found, found.find_function(entry_point.name))
    second = None
    if compiled is not None:
        second, more = _write_call(case, entry_point, found, compiled)
        used |= more
    return Calls(found.write(used), call, second)


def _write_call(
    case: Case, entry_point: EntryPoint, source: Source, function: Function | str | None
) -> tuple[ScriptCall, set[str]]:
    """Return the lines of a call, and of the call that follows if the case has one, and the names that they use."""
    if "followed" in case.options:
        passed = make_following_call(case.call(""))
        following = replace(case, gradients=passed.gradients, options=passed.options)
        alone = replace(case, options={name: value for name, value in case.options.items() if name != "followed"})
        first, used = _write_call(alone, entry_point, source, function)
        again, more = _write_call(following, entry_point, source, function)
        return _add_following_call(first, again), used | more
    asked, case = case, pass_case(case, entry_point)
    arguments = _list_arguments(case, entry_point, function, source)
    if isinstance(function, Function):
        used = {"make", function.name, *function.names}
        clip = function.write_call("gradients", arguments)
    else:
        used = {"make", "split"}
        clip = f"split({function}({', '.join(['list(gradients)', *arguments])}), gradients)"
    reader = _find_reader(case, source)
    used |= {f"make_{one.layout}" for one in case.gradients} | {reader}
    results = _write_results(case, entry_point, reader)
    call = ScriptCall(_write_gradients(case, source), f"results, norm = {clip}", *results)
    return split_units(asked, entry_point, call), used


def _add_following_call(first: ScriptCall, again: ScriptCall) -> ScriptCall:
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


def _find_reader(case: Case, source: Source) -> str:
    """Return the name of the function that makes arrays of NumPy, or an empty text if NumPy needs none."""
    has_bfloat16 = any(one.array is not None and one.array.dtype == "bfloat16" for one in case.gradients)
    if not choose_expectation(case).needs_numbers:
        return ""
    readers = ("read", *["read_bfloat16"] * has_bfloat16)
    return next((name for name in readers if name in source.definitions), "")


def _write_results(case: Case, entry_point: EntryPoint, reader: str) -> tuple[str, str]:
    """Return two lines: one lists the results, one the passed gradients, both as NumPy arrays."""
    if not reader:
        return "", "results = gradients"
    exists = all(gradient.array is not None for gradient in case.gradients)

    def write_line(name: str, exists: bool) -> str:
        return f"results = [{'' if exists else 'None if one is None else '}{reader}(one) for one in {name}]"

    return write_line("results", exists or "optimizer" in entry_point.features), write_line("gradients", exists)


def _split_function_name(target: str) -> tuple[str, str]:
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
    return module, name


def _is_plain_name(name: str) -> bool:
    """Return whether a text is an identifier in Python's own spelling, and not a keyword."""
    return name.isidentifier() and not keyword.iskeyword(name) and unicodedata.normalize("NFKC", name) == name


def _list_arguments(case: Case, entry_point: EntryPoint, function: Function | str | None, source: Source) -> list[str]:
    """Return the arguments of a call besides the gradients."""
    if unknown := sorted({*case.options} - PASSED - {*HOW}):
        msg = f"No script passes the option {unknown[0]!r}."
        raise NoScript(msg)
    options = {key: write_literal(value) for key, value in case.options.items() if key in PASSED}
    if isinstance(function, Function) and "min" in function.required and "max" in options:
        options.setdefault("min", write_literal(-float(case.options["max"])))
    if "threshold_as" in case.options:
        options = convert_thresholds(options, THRESHOLDS[case.options["threshold_as"]].format)
    if "tensor_threshold" in case.options:
        options = convert_thresholds(options, f"make({{}}, {write_literal(case.dtype)})".format)
    if "axes" in case.options:
        options["axes"] = str(read_axes(case.options))
    included = all(gradient.need_clip for gradient in case.gradients)
    passes_all = "optional_flags" not in entry_point.features or "flags" in case.options
    if not included or (not isinstance(function, Function) and "excludes" in entry_point.features and passes_all):
        flag = FLAGS[case.options.get("flags", "bool")]
        options["need_clip"] = f"[{', '.join(flag.format(write_literal(one.need_clip)) for one in case.gradients)}]"
    if OPERATIONS[case.operation].is_relative:
        given = replace(case, gradients=tuple(list_parameters(case.gradients)))
        options["parameters"] = _list_gradients(given, source)
    if isinstance(function, Function) and "form" in function.parameters:
        if case.options.get("as_single"):
            options["form"] = "lambda parameters: parameters[0]"
        elif case.options.get("as_generator"):
            options["form"] = "iter"
    return [f"{key}={value}" for key, value in options.items()]


def _write_gradients(case: Case, source: Source) -> str:
    """Return the lines that make the list of the gradients."""
    pairs = [(i, gradient.same_as) for i, gradient in enumerate(case.gradients)]
    repeated = [f"gradients[{i}] = gradients[{earlier}]" for i, earlier in pairs if earlier is not None]
    return join_lines(f"gradients = {_list_gradients(case, source)}", *repeated)


def _list_gradients(case: Case, source: Source) -> str:
    if any(gradient.rows is not None for gradient in case.gradients):
        msg = f"{case.id} passes a sparse gradient. No script does that."
        raise NoScript(msg)
    written = [_write_gradient(gradient, source) for gradient in case.gradients]
    if len(written) <= LISTED:
        line = "[" + ", ".join(written) + "]"
        return line if len(line) <= 100 or len(written) < 2 else "[\n    " + ",\n    ".join(written) + ",\n]"
    if len(set(written)) == 1:
        return f"[{written[0]} for _ in range({len(written)})]"
    msg = f"{case.id} has {len(written)} different gradients, too many to write out."
    raise NoScript(msg)


def _write_gradient(gradient: Gradient, source: Source) -> str:
    if gradient.array is None:
        return "None"
    values = write_array(read_float64_values(gradient.array).reshape(gradient.array.shape))
    contiguous = f"make({values}, {write_literal(gradient.array.dtype)})"
    dimensions = len(gradient.array.shape)
    # An array without axes has one layout only, and a transposed one with a single axis is contiguous.
    if gradient.layout == "contiguous" or dimensions == 0 or (dimensions == 1 and gradient.layout == "transposed"):
        return contiguous
    function = f"make_{gradient.layout}"
    if function not in source.definitions:
        msg = f"The suite does not know how to make a gradient with the layout {gradient.layout!r}."
        raise NoScript(msg)
    return f"{function}({contiguous})"
