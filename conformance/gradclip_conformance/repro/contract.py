"""Write the lines of a script that calls a framework through its adapter.

For our own adapters, `direct.py` writes scripts that call the framework itself. For any other adapter, the script calls
the adapter. Such a script needs NumPy, the framework and the package `gradclip_adapters`, but not the suite.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, replace

from gradclip_adapters import registry
from gradclip_adapters.contract import Array, EntryPoint, Gradient
from gradclip_adapters.operations import OPERATIONS

from ..cases.literals import NoScript, write_array, write_literal
from ..cases.model import Case
from ..cases.stacking import Stacking, count_examples
from ..judge.model import ScriptCall, join_lines
from ..oracle.formats import read_float64_values

IMPORTS = """from dataclasses import replace

from {module} import {name}
from gradclip_adapters.contract import Array, Call, FrameworkRaised, Gradient{bfloat16}

adapter = {adapter}


def clip(gradients, options):
    \"\"\"Make the call as the suite does, and put the values after the call into the list.\"\"\"
    after = None
    try:
        reply = adapter.call(Call({entry_point}, tuple(gradients), options))
        after = reply.inputs
        return reply.gradients, None if reply.norm is None else reply.norm.numpy(), reply
    except FrameworkRaised as error:
        after = error.inputs
        raise
    finally:
        if after is not None:
            gradients[:] = [replace(one, array=array) for one, array in zip(gradients, after)]
"""
CONVERTED = "results = [None if array is None else array.numpy() for array in {}]"


#: A line that takes tensors apart into their units.
UNITS = "results = [unit for array in results for unit in ([array] if array is None or array.ndim < 2 else {})]"


@dataclass(frozen=True)
class Calls:
    """The lines of a script before its calls, and those of its calls."""

    #: The imports, and the functions that the calls use.
    top: str
    call: ScriptCall
    #: The same call inside the framework's compiler, if a script makes it, too.
    compiled: ScriptCall | None = None


def write_calls(
    adapter: str, case: Case, entry_point: EntryPoint, *, compiles: bool, command: str | None, arrays: str = "numpy"
) -> Calls:
    """Return the lines that call the framework through its adapter. `command` starts the adapter's host.

    An adapter may also be made of a function on a mesh, which gets these `arrays`.
    """
    if command is None and registry.find_kind(adapter) == "name" and adapter not in registry.list_installed():
        msg = f"There is no adapter {adapter!r} here. Name the command that starts its host with --command."
        raise NoScript(msg)
    if "threads" in case.options:
        msg = f"{case.id} calls from several threads. No script does that through an adapter."
        raise NoScript(msg)
    compiled = None
    if compiles:
        compiled = _write_call(replace(case, options={**case.options, "compiled": True}), entry_point)
    return Calls(_write_imports(adapter, entry_point, case, command, arrays), _write_call(case, entry_point), compiled)


def _write_imports(adapter: str, entry_point: EntryPoint, case: Case, command: str | None, arrays: str) -> str:
    """Return the lines that import the adapter, or start its host, and define how to call it."""
    dtypes = {gradient.array.dtype for gradient in case.gradients if gradient.array is not None}
    bfloat16 = ", find_numpy_dtype" if "bfloat16" in dtypes else ""
    if command is None:
        words = [write_literal(adapter)]
        if registry.find_kind(adapter) == "function":
            mesh = write_literal(dict(entry_point.mesh or {}))
            words += [write_literal(entry_point.operation), f"mesh={mesh}", f"arrays={write_literal(arrays)}"]
        module, name, made = "gradclip_adapters.registry", "resolve", f"resolve({', '.join(words)})"
    else:
        words = shlex.split(command)
        # As in `gradclip check`: a command that is a whole host does not get the adapter's name.
        words += [] if adapter in words else [adapter]
        module, name, made = "gradclip_adapters.client", "Client", f"Client({write_literal(words)})"
    return IMPORTS.format(
        module=module, name=name, adapter=made, entry_point=write_literal(entry_point.name), bfloat16=bfloat16
    )


def _write_call(case: Case, entry_point: EntryPoint) -> ScriptCall:
    """Return the lines of a call through the adapter."""
    gradients = ",\n    ".join(map(_write_gradient, pass_case(case, entry_point).gradients))
    options = ", ".join(f"{write_literal(name)}: {write_literal(value)}" for name, value in case.options.items())
    call = ScriptCall(
        gradients=f"gradients = [\n    {gradients},\n]" if gradients else "gradients = []",
        clip=f"results, norm, reply = clip(gradients, {{{options}}})",
        results=CONVERTED.format("results"),
        inputs=CONVERTED.format("(gradient.array for gradient in gradients)"),
    )
    return split_units(case, entry_point, call)


def _write_gradient(gradient: Gradient) -> str:
    if gradient.cotangent is not None:
        msg = "The case asks for derivatives through the clip. No script computes them."
        raise NoScript(msg)
    words = [write_literal(gradient.name), "None" if gradient.array is None else _write_array(gradient.array)]
    fields: tuple[tuple[str, object, object], ...] = (
        ("need_clip", gradient.need_clip, True),
        ("layout", gradient.layout, "contiguous"),
        ("same_as", gradient.same_as, None),
        ("height", gradient.height, None),
        ("group", gradient.group, 0),
        ("placements", dict(gradient.placements), {}),
    )
    words += [f"{name}={write_literal(value)}" for name, value, default in fields if value != default]
    if gradient.parameter is not None:
        words.append(f"parameter={_write_array(gradient.parameter)}")
    if gradient.rows is not None:
        words.append(f"rows={_write_tuple(gradient.rows)}")
    return f"Gradient({', '.join(words)})"


def _write_tuple(numbers: Sequence[int]) -> str:
    return f"tuple({write_literal(list(numbers))})"


def _write_array(array: Array) -> str:
    values = write_array(read_float64_values(array).reshape(array.shape))
    if array.dtype == "bfloat16":
        # The values are exact, so the conversion rounds nothing.
        return f'Array.of(np.array({values}).astype(find_numpy_dtype("bfloat16")))'
    return f"Array.of(np.array({values}, {write_literal(array.dtype)}))"


def pass_case(case: Case, entry_point: EntryPoint) -> Case:
    """Return the case with the gradients that a call passes. No script takes the sums of several examples apart."""
    if OPERATIONS[case.operation].sums_examples and count_examples(case.gradients) > 1:
        msg = f"{case.id} has several examples. No script takes their sum apart."
        raise NoScript(msg)
    return replace(case, gradients=Stacking(entry_point).stack(case.gradients))


def split_units(case: Case, entry_point: EntryPoint, call: ScriptCall) -> ScriptCall:
    """Return the lines of a call whose results are the units of the tensors, if the clip is unitwise."""
    if not OPERATIONS[case.operation].divides_gradients:
        return call
    line = UNITS.format("np.moveaxis(array, -1, 0)" if "units_last" in entry_point.features else "array")
    return replace(call, results=join_lines(call.results, line), inputs=join_lines(call.inputs, line))
