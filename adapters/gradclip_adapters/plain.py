"""Make an adapter of any function on NumPy arrays. Its signature shows its abilities.

The function is called as `fn(grads, *, clip_norm)` (by most norms), as `fn(grads, *, max, min)` (by value), or as
`fn(grads, *, clip_factor, parameters)` (unitwise), where the first axis of a gradient counts the units.
`grads` is a list of NumPy arrays, with None for a parameter without a gradient. A function may also take `need_clip`,
`norm_type` and `error_if_nonfinite`. A function with `**kwargs` takes all three, and has a default for none of them.
`need_clip` is a list of bool. If it has a default, it is passed only when the case excludes a gradient. The other two
are passed only when the case sets them. If the function lacks a parameter, the cases that need it are `unsupported`.

The function returns the list of clipped gradients, or `(list, total_norm)`. A function that works in place may return
None or only the norm; then the arrays that it got are the results. A signature does not show whether a clip by global
norm returns the norm: the feature `may_return_norm` asks the suite to find out (`gradclip_conformance.run.probing`).
"""

from __future__ import annotations

import inspect
import operator
import sys
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Callable, Mapping, Sequence

import numpy as np

from .answers import count_answer_bytes
from .arrays import (
    FEATURE_OF_LAYOUT,
    FEATURE_OF_PARAMETER,
    HOW,
    UNWRITABLE,
    answer_in_threads,
    build_parameters,
    build_tensors,
    convert_options,
    make_array,
    make_earlier_calls,
    make_following_call,
    refuse_unlisted,
)
from .contract import (
    OPERATIONS,
    About,
    Adapter,
    Array,
    Call,
    EntryPoint,
    FrameworkRaised,
    Gradient,
    Reply,
    Unsupported,
    framework_call,
    read_text,
)
from .limits import NAME, shorten
from .plain_results import pack, read_result, returned_no_list
from .surroundings import watch_memory

__all__ = ["DTYPES_OF_FUNCTIONS", "FEATURES_OF_EVERY_FUNCTION", "FILE_MODULE", "PlainFunction"]

#: The file of an adapter or a function is imported under a name that begins with this text.
FILE_MODULE = "_gradclip_adapter_"

#: The dtypes of the gradients that a function gets unless others are named.
DTYPES_OF_FUNCTIONS = ("float16", "float32", "float64")

#: The features of every function, whatever its signature shows.
FEATURES_OF_EVERY_FUNCTION = (
    "broadcast",
    "follows",
    "mixed_dtypes",
    "none_grads",
    "packed",
    "repeated",
    "reuses",
    "read_only",
    "reversed",
    "strided",
    "threads",
    "threshold_kinds",
    "unaligned",
)

#: A case may leave these out, so a function needs a default for them.
OPTIONAL = ("norm_type", "error_if_nonfinite", "eps", "layers")


class PlainFunction(Adapter):
    """A function on a list of NumPy arrays, as an adapter with one entry point.

    Parameters
    ----------
    function
        The function; see the module's description.
    operation
        One of `gradclip_adapters.contract.OPERATIONS`, such as `clip_by_norm`.
    dtypes
        The dtypes of the gradients that it gets; bfloat16 needs the package ml_dtypes.
    in_place
        True: the function must write its results into the arrays that it gets. False: it must not change them. None: it
        may change an array only if this is itself the result.
    name
        The entry point's name; `module:function` by default.
    more
        The parameters that a subclass passes beside those of the operation, if the function takes them.
    needed
        Those of them that the function must take.

    Raises
    ------
    TypeError
        If the function cannot be called for its operation.
    ValueError
        If there is no such operation.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        operation: str,
        dtypes: Sequence[str] = DTYPES_OF_FUNCTIONS,
        in_place: bool | None = None,
        name: str | None = None,
        more: Sequence[str] = (),
        needed: Sequence[str] = (),
    ) -> None:
        if operation not in OPERATIONS:
            message = f"there is no operation {operation!r}: choose from {', '.join(OPERATIONS)}"
            raise ValueError(message)
        clip = OPERATIONS[operation]
        self._function = function
        self._module = getattr(function, "__module__", None) or "unknown"
        qualified_name = getattr(function, "__qualname__", type(function).__qualname__)
        self._source = f"{_name_module(self._module)}:{qualified_name}"
        self._taken, self._required, with_default = _read_parameters(
            function, (clip.threshold, *clip.parameters, *more), needed, self._source
        )
        norm_types = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 6.0, float("inf")) if "norm_type" in self._taken else (2.0,)
        features = _list_features(self._taken, self._required, with_default, in_place)
        if clip.returns_norm:
            features = (*features, "may_return_norm")
        self._entry_point = EntryPoint(name or self._source, operation, tuple(dtypes), features, norm_types)

    def about(self) -> About:
        """Return the function's module and name, and the version of the module or of its package, if there is one."""
        module = str(self._module)
        for candidate in (module, module.split(".", maxsplit=1)[0]):
            version = getattr(sys.modules.get(candidate), "__version__", None)
            if type(version) is str:
                return About(self._source, shorten(version, NAME), {"numpy": np.__version__})
        return About(self._source, "", {"numpy": np.__version__})

    def subjects(self) -> Sequence[EntryPoint]:
        """Return the function as the only entry point."""
        return [self._entry_point]

    def call(self, call: Call) -> Reply:
        """Call the function on fresh arrays."""
        self._refuse_missing_parameters(call)
        refuse_unlisted(call, self._entry_point)
        if "threads" in call.options:
            return answer_in_threads(call, self._answer)
        return self._answer(call)

    def _refuse_missing_parameters(self, call: Call) -> None:
        """Refuse a call that needs a parameter which the function does not take."""
        if any(gradient.cotangent is not None for gradient in call.gradients):
            message = "arrays of NumPy carry no derivatives"
            raise Unsupported(message, "interface")
        needed = {name for name in call.options if name not in HOW}
        needed |= {"need_clip"} if not all(gradient.need_clip for gradient in call.gradients) else set()
        missing = sorted(needed - self._taken)
        if missing:
            message = f"{self._source} takes no parameter {', '.join(map(repr, missing))}"
            raise Unsupported(message, "interface")

    def build_keywords(self, call: Call, more: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of the function beside the gradients. `more` holds keywords beside the options.

        Raises
        ------
        Unsupported
            If the call leaves out an argument that the function needs.
        """
        keywords, flags = convert_options(call.options, [gradient.need_clip for gradient in call.gradients])
        # A default for the flags must include all gradients. Leaving the flags out tests that.
        # A call that asks for flags of a kind passes them, even if all are true.
        left_out = "optional_flags" in self._entry_point.features and all(flags) and "flags" not in call.options
        if "need_clip" in self._taken and not left_out:
            keywords["need_clip"] = flags
        if "parameters" in self._taken:
            keywords["parameters"] = build_parameters(call.gradients, make_array)
        keywords.update((name, value) for name, value in more.items() if name in self._taken)
        missing = sorted(self._required - set(keywords))
        if missing:
            message = f"{self._source} cannot be called without {', '.join(missing)}"
            raise Unsupported(message)
        return keywords

    def ask(self, gradients: list[Any], keywords: dict[str, Any]) -> Any:
        """Call the function, and return what it returns."""
        try:
            return self._function(gradients, **keywords)
        except Unsupported as error:
            # Only an adapter may say that something is unsupported. If a function raises this, it is an ordinary error.
            message = f"Unsupported: {read_text(error)}"
            raise RuntimeError(message) from error

    def _ask_with_same_objects(
        self, call: Call, passed: list[Any], keywords: Mapping[str, Any], own: dict[str, Any]
    ) -> None:
        """Make an earlier call with the arrays, the list and the flags of a later one, which have other contents now.

        Then put the contents of the flags and the parameters back.
        """
        _fill(passed, call.gradients)
        flags, kept = keywords.get("need_clip"), list(keywords.get("need_clip", ()))
        if flags is not None and "need_clip" in own:
            flags[:] = own["need_clip"]
            own["need_clip"] = flags
        parameters = keywords.get("parameters", ())
        values = [None if array is None else array.copy() for array in parameters]
        for array, other in zip(parameters, own.get("parameters", ())):
            if array is not None:
                # A norm that a function keeps for a parameter is wrong after a step of training.
                array[...] = 2 * other
        own.update({"parameters": parameters} if "parameters" in own else {})
        try:
            self.ask(passed, own)
        finally:
            if flags is not None:
                flags[:] = kept
            for array, old in zip(parameters, values):
                if array is not None:
                    array[...] = old

    def _answer(self, call: Call, more: Mapping[str, Any] = MappingProxyType({})) -> Reply:
        """Answer a call. `more` holds keywords beside the options of the call, for the parameters `more`."""
        keywords = self.build_keywords(call, more)
        arrays = build_tensors(call.gradients, make_array)
        # Pass a copy of the list, because changes to the list would hide changes to the arrays.
        passed = list(arrays)
        list_disturbed = _watch(call, arrays, passed, keywords)
        allowed, is_given = count_answer_bytes(call), "in_place" in self._entry_point.features
        try:
            with framework_call(lambda: pack(arrays, allowed)) as seen:
                for earlier in make_earlier_calls(call) if "reused" in call.options else ():
                    self._ask_with_same_objects(earlier, passed, keywords, self.build_keywords(earlier, more))
                    _fill(arrays, call.gradients)
                    passed[:] = arrays
                # Read the result inside the block: after the block, the call of another thread might change it first.
                result = self.ask(passed, keywords)
                if "followed" in call.options:
                    following = make_following_call(call)
                    others = list(build_tensors(following.gradients, make_array))
                    self.ask(others, self.build_keywords(following, more))
                reply = read_result(result, passed, arrays, allowed)
                disturbed = list_disturbed(is_given or returned_no_list(result))
        except FrameworkRaised as error:
            if "functional" not in self._entry_point.features and _is_about_unwritable(call, error):
                message = f"{self._source} writes into the gradients that it gets, and some of these cannot be written"
                raise Unsupported(message, "interface") from error
            error.disturbed = list_disturbed(is_given)
            raise
        return replace(reply, inputs=pack(arrays, allowed), warnings=seen.warnings, disturbed=disturbed)


def _watch(
    call: Call, arrays: Sequence[Any], passed: Sequence[Any], keywords: Mapping[str, Any]
) -> Callable[[bool], tuple[str, ...]]:
    """Return a function that names the objects of a call that have changed by then.

    The argument of that function allows the call to put its results into the list.
    """
    flags = list(keywords.get("need_clip", ()))
    look_again = watch_memory(arrays)

    def list_disturbed(is_given: bool) -> tuple[str, ...]:
        disturbed: tuple[str, ...] = () if is_given or _has_same_items(passed, arrays) else ("the caller's list",)
        if not _has_same_items(keywords.get("need_clip", flags), flags):
            disturbed += ("the caller's flags",)
        if not _has_parameters(call, keywords.get("parameters")):
            disturbed += ("a parameter",)
        return disturbed + look_again()

    return list_disturbed


def _is_about_unwritable(call: Call, error: FrameworkRaised) -> bool:
    """Return whether a call has arrays that cannot be written, and its error says so in the words of NumPy."""
    return "read-only" in error.text and any(gradient.layout in UNWRITABLE for gradient in call.gradients)


def _has_same_items(some: Sequence[Any], others: Sequence[Any]) -> bool:
    return len(some) == len(others) and all(map(operator.is_, some, others))


def _name_module(module: Any) -> str:
    """Return a module's name. For a file that was imported under a name of our own, return the name of the file."""
    if not str(module).startswith(FILE_MODULE):
        return str(module)
    path = getattr(sys.modules.get(module), "__file__", None)
    return Path(path).name if isinstance(path, str) else str(module)


def _read_parameters(
    function: Callable[..., Any], known: Sequence[str], needed: Sequence[str], source: str
) -> tuple[set[str], set[str], set[str]]:
    """Return three sets of names: the parameters that the function takes, those it needs, and those with a default."""
    try:
        declared = list(inspect.signature(function).parameters.values())
    except Exception as error:  # a callable object may have a `__signature__` of its own
        message = f"{source} has no signature to read: wrap it in a function that has one"
        raise TypeError(message) from error
    if not declared or declared[0].kind is inspect.Parameter.KEYWORD_ONLY:
        message = f"{source} takes no positional argument: it must take the list of gradients as the first one"
        raise TypeError(message)
    if any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in declared):
        taken = set(known)
    else:
        named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
        taken = {parameter.name for parameter in declared[1:] if parameter.kind in named} & set(known)
    for name in (known[0], "parameters", *needed):
        if name in known and name not in taken:
            message = f"{source} takes no parameter {name!r}, which this check needs"
            raise TypeError(message)
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    with_default = {p.name for p in declared[1:] if p.default is not inspect.Parameter.empty}
    required = {p.name for p in declared[1:] if p.name not in with_default and p.kind not in variable}
    unfilled = sorted((required - set(known)) | (required & set(OPTIONAL)))
    if unfilled:
        message = f"{source} needs {', '.join(unfilled)}, which is not passed in every call: give it a default"
        if "mesh" in unfilled:
            message += ", or check it on a mesh such as {'shard': 2} (--mesh shard=2)"
        raise TypeError(message)
    return taken, required, with_default


def _list_features(
    taken: set[str], required: set[str], with_default: set[str], in_place: bool | None
) -> tuple[str, ...]:
    features = {*FEATURES_OF_EVERY_FUNCTION, *(["flag_kinds"] if "need_clip" in taken else [])}
    features.update(FEATURE_OF_PARAMETER[name] for name in taken if name in FEATURE_OF_PARAMETER)
    if "min" in required:
        features.add("requires_min")
    if "need_clip" in with_default:
        features.add("optional_flags")
    if in_place is not None:
        features.add("in_place" if in_place else "functional")
    if in_place:
        features -= {FEATURE_OF_LAYOUT[layout] for layout in UNWRITABLE}
    return tuple(sorted(features))


def _has_parameters(call: Call, parameters: Sequence[np.ndarray[Any, Any] | None] | None) -> bool:
    pairs = zip(call.gradients, parameters or ())
    return all(
        array is None or one.parameter == Array.of(array, one.parameter.dtype) for one, array in pairs if one.parameter
    )


def _fill(arrays: Sequence[np.ndarray[Any, Any] | None], gradients: Sequence[Gradient]) -> None:
    for array, gradient in zip(arrays, gradients):
        if array is not None and gradient.array is not None:
            array[...] = gradient.array.numpy()
