"""Fill in the templates of a new adapter's files."""

from __future__ import annotations

import datetime
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from string import Template

from gradclip_adapters.contract import FEATURES
from gradclip_adapters.operations import OPERATIONS, Operation

from .abilities import DTYPES, NORM_TYPES, Ability, list_abilities

__all__ = ["STYLES", "write_files"]

TEMPLATES = Path(__file__).parent / "templates"
WIDTH = 120


@dataclass(frozen=True)
class Style:
    """One way to call a clip function."""

    #: The abilities that the adapter declares.
    declared: tuple[str, ...]
    #: What somebody has to write.
    task: str
    #: The last lines of the stand-in, the lines that call it and read its results, and the rest of the reply.
    ending: str
    call: str
    reply: str


STYLES = {
    "functional": Style(
        ("functional",),
        "Call the framework. Return the list of clipped tensors, and the norm, or None if it returns none.",
        "return results, norm",
        "clipped, norm = clip(passed, options)\nresults = tuple(read(tensor) for tensor in clipped)",
        "same_object=tuple(new is old for new, old in zip(clipped, tensors)),\n",
    ),
    "in-place": Style(
        ("in_place",),
        "Call the framework, which changes the tensors. Return the norm, or None if it returns none.",
        "for one, result in zip(tensors, results):\n    if one is not None:\n        one[...] = result\nreturn norm",
        "norm = clip(passed, options)\nresults = tuple(read(tensor) for tensor in tensors)",
        "same_object=tuple(True for _ in tensors),\n",
    ),
    "optimizer": Style(
        ("optimizer",),
        "Take one step of SGD from parameters that are zero. Return the parameters, and the norm or None.\n\n"
        "    For Adam, set beta1 to 0, and return the negated first moments in place of the parameters.",
        'rate = options.get("learning_rate", 1.0)\n'
        "return [None if one is None else 0 - one.dtype.type(rate) * one for one in results], norm",
        # Subtract, because the negative of a zero is minus zero, which no optimizer made.
        "parameters, norm = clip(passed, options)\n"
        "results = tuple(None if one is None else read(0 - np.asarray(one)) for one in parameters)",
        "",
    ),
}


#: The line that makes the parameters of a unitwise clip.
PARAMETERS = 'options["parameters"] = build_parameters(call.gradients, make_tensor)'

#: The options that come with abilities.
MORE_OPTIONS = {
    "min": ("min_max", "requires_min"),
    "norm_type": ("norm_type",),
    "eps": ("eps",),
    "layers": ("layers",),
    "error_if_nonfinite": ("error_if_nonfinite",),
    "need_clip": ("excludes",),
    "learning_rate": ("learning_rate",),
    "compiled": ("compiles",),
}


def write_files(name: str, style: str, operation: str) -> dict[str, str]:
    """Return the texts of a new adapter's files, by the names of the files."""
    kind = STYLES[style]
    abilities = list_abilities(operation, kind.declared)
    opened = {ability.name for ability in abilities if ability.cells}
    more = [f"`{option}`" for option, needed in MORE_OPTIONS.items() if opened & set(needed)]
    names = {
        "name": name,
        "operation": operation,
        "prefix": OPERATIONS[operation].prefix,
        "today": datetime.datetime.now(datetime.UTC).date().isoformat(),
        "dtypes": str(DTYPES).replace("'", '"'),
        "norm_types": str(NORM_TYPES).replace("inf", 'float("inf")'),
        "features": "\n".join([*_list_declared(kind.declared), *_list_others(abilities)]),
        "task": kind.task,
        "threshold": OPERATIONS[operation].threshold,
        "more": textwrap.fill(f"With abilities, it also holds {', '.join(more)}.", WIDTH - 4, subsequent_indent="    "),
        "stand_in": textwrap.indent(f"{_write_stand_in(OPERATIONS[operation])}\n{kind.ending}", "    "),
        "helpers": _list_helpers(operation),
        "parameters": f"        {PARAMETERS}\n" if OPERATIONS[operation].is_relative else "",
        "call": textwrap.indent(kind.call, " " * 12),
        "reply": textwrap.indent(kind.reply, " " * 12),
    }
    return {
        name + ending: Template((TEMPLATES / template).read_text(encoding="utf-8")).substitute(names)
        for ending, template in (
            (".py", "adapter.py.txt"),
            (".claims.toml", "claims.toml"),
            (".expectations.toml", "expectations.toml"),
            (".workflow.yml", "workflow.yml"),
        )
    }


def _write_stand_in(operation: Operation) -> str:
    """Return the line that computes `results` and `norm`: a call of the reference."""
    names = ["parameters"] if operation.is_relative else []
    arguments = ["tensors", *(f'options["{name}"]' for name in (*names, operation.threshold))]
    arguments += ['options.get("min")'] if "min" in operation.parameters else []
    call = f"gradclip_spec.{operation.function}({', '.join(arguments)})"
    return f"results, norm = {call}{'' if operation.returns_norm else ', None'}"


def _list_helpers(operation: str) -> str:
    """Return what the adapter imports, in one line or in a line for each name."""
    helpers = ["answer_in_threads", "build_tensors", "convert_options", "lay_out", "refuse_unlisted"]
    if not OPERATIONS[operation].is_relative:
        return ", ".join(helpers)
    names = "".join(f"    {name},\n" for name in sorted([*helpers, "build_parameters"]))
    return f"(\n{names})"


def _list_declared(declared: tuple[str, ...]) -> Iterator[str]:
    for ability in declared:
        yield f"    # {FEATURES[ability]}"
        yield f'    "{ability}",'


def _list_others(abilities: list[Ability]) -> Iterator[str]:
    """Yield a comment and a commented line for each ability that is not declared."""
    for ability in abilities:
        beside = f" beside `{ability.beside}`" if ability.beside else ""
        cells = "1 cell" if ability.cells == 1 else f"{ability.cells} cells"
        comment = f"{cells}{beside}: {ability.meaning}"
        comment += f". To do: {ability.work}" if ability.work else ""
        yield from textwrap.wrap(comment, WIDTH, initial_indent="    # ", subsequent_indent="    # ")
        yield f'    # "{ability.name}",'
