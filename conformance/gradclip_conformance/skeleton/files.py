"""Fill in the templates of a new adapter's files, with the number of test cases that each ability adds."""

from __future__ import annotations

import datetime
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template

from gradclip_adapters.contract import FEATURES, EntryPoint
from gradclip_adapters.operations import OPERATIONS, Operation

from ..cases.catalogue import list_all_cases
from ..run.plan import Selection, plan_cells
from ..sampler.rows import list_cases

TEMPLATES = Path(__file__).parent / "templates"
WIDTH = 120

DTYPES = ("float16", "float32", "float64")
NORM_TYPES = (1.0, 2.0, float("inf"))

#: Some abilities add cells only if another ability is declared, too.
BESIDE = {"flag_kinds": "excludes", "learning_rate": "optimizer", "training": "optimizer", "groups": "optimizer"}

#: The work to do for each ability that the written adapter does not have yet.
WORK = {
    "compiled": "compile the function in `clip`",
    "compiles": 'compile the function in `clip` if `options.pop("compiled", False)`',
    "distributed": "declare it for an entry point of its own, which calls in several processes (`processes.Team`)",
    "differentiable": "in `call`, pull `Gradient.cotangent` back through `clip`",
    "follows": "in `call`, also make the call `arrays.make_following_call(call)`",
    "functional": "start with `--style functional`",
    "groups": "in `clip`, put the tensors into the groups that `Gradient.group` names",
    "in_place": "start with `--style in-place`",
    "norm_per_group": "in `clip`, put the tensors into the groups that `Gradient.group` names",
    "optimizer": "start with `--style optimizer`",
    "reuses": "in `call`, first make the calls `arrays.make_earlier_calls(call)` on the same tensors",
    "single": 'in `call`, pass `tensors[0]` if `options.pop("as_single", False)`, and read a single result',
    "sparse": "in `make_tensor`, make a row-sparse tensor of `Gradient.rows`",
    "tensor_threshold": "pass `make_scalar` to `convert_options`: a function that makes a tensor of a float",
    "training": "in `clip`, take the steps that the options ask for",
}


@dataclass(frozen=True)
class Ability:
    """An ability, and the cells that a run adds if an adapter declares it."""

    name: str
    meaning: str
    #: The number of cells that a run has with the ability and lacks without it.
    cells: int
    #: The other ability that these cells need. It is empty if they need none.
    beside: str = ""

    @property
    def work(self) -> str:
        """The code that the ability needs. It is empty if the written adapter has it."""
        return WORK.get(self.name, "")


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
    abilities = _list_abilities(operation, kind.declared)
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


def _count_cells(operation: str, features: Sequence[str]) -> int:
    """Return the number of cells that a run has for an entry point with these abilities."""
    entry_point = EntryPoint("new", operation, DTYPES, tuple(features), NORM_TYPES)
    written = sum(cell.missing is None for cell in plan_cells([entry_point], list_all_cases(), Selection()))
    return written + sum(1 for _ in list_cases(entry_point))


def _list_abilities(operation: str, declared: Sequence[str]) -> list[Ability]:
    """Return all abilities that are not declared. The abilities that need no code and add most cells come first."""
    before: dict[tuple[str, ...], int] = {(): _count_cells(operation, declared)}
    found = []
    for name, meaning in FEATURES.items():
        if name in declared:
            continue
        beside = tuple({BESIDE[name]} - set(declared)) if name in BESIDE else ()
        if beside not in before:
            before[beside] = _count_cells(operation, [*declared, *beside])
        cells = _count_cells(operation, [*declared, *beside, name])
        # An entry point that runs in several processes gets no other cells.
        cells -= 0 if name == "distributed" else before[beside]
        found.append(Ability(name, meaning, cells, "".join(beside)))
    return sorted(found, key=lambda ability: (not ability.cells, bool(ability.work), -ability.cells))


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
