"""Write a comparison for a terminal, as Markdown or as JSON: the severest difference first."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .difference import Compared, Contrast, Difference
from .layout import paint, shorten_line, wrap_text
from .lines import Cell
from .markup import draw_markdown_table, escape_markdown, format_code
from .values import escape_line, format_count, format_value, is_hex_float, shorten_text, write_json

#: The number of lines of a comparison at 80 columns: one screen.
LINES = 40

#: The number of differences shown in full, and the number shown in two or three lines each. The others have one line
#: each.
IN_FULL = 2
IN_SHORT = 3

#: Numbers in an example have this many digits, or more if the answers differ only in a later digit.
DIGITS = 4

#: An example shows this many elements of each gradient.
SHOWN = 4

#: In Markdown, a call or an answer is cut to this many characters.
LENGTH = 160

INDENT = "   "


def draw(compared: Compared, format_: str, width: int = 80, *, color: bool = False) -> str:
    """Return the comparison as text for a terminal (optionally with colours), as Markdown or as JSON."""
    if format_ == "json":
        return write_json(_make_document(compared), indent=2) + "\n"
    lines = _draw_markdown(compared) if format_ == "markdown" else _draw_terminal(compared, width, color)
    return "".join(f"{line.rstrip()}\n" for line in lines)


def _make_document(compared: Compared) -> dict[str, Any]:
    return {
        "names": list(compared.names),
        "formulas": [{"what": row.label, "answers": list(row.answers)} for row in compared.formulas],
        "differences": [
            {
                "question": difference.question,
                "severity": one.severity,
                "answers": [one.first, one.second],
                "cases": list(one.cases),
                "example": {
                    "case": one.cells[0].case,
                    "input": one.cells[0].input or one.cells[1].input,
                    "observed": [cell.observed for cell in one.cells],
                    "quotes": list(one.quotes),
                },
            }
            for difference in compared.differences
            for one in difference.contrasts
        ],
        "only": {name: list(rules) for name, rules in zip(compared.names, compared.only, strict=True)},
        "same": compared.same,
    }


def _draw_terminal(compared: Compared, width: int, color: bool) -> list[str]:
    names = [_shorten(name) for name in compared.names]
    heading = f"{' and '.join(compared.names)}{', the severest difference first:' if compared.differences else ':'}"
    lines = [*_draw_formulas(compared, names, width), *wrap_text(escape_line(heading), width)]
    for number, one in enumerate(compared.differences[: IN_FULL + IN_SHORT], start=1):
        lines.append(_draw_question(number, one, width, color))
        if number <= IN_FULL:
            lines += _draw_in_full(one.contrasts[0], names, width)
        else:
            told = zip(names, (one.contrasts[0].first, one.contrasts[0].second), strict=True)
            lines += _wrap_lines("; ".join(f"{name}: {text}" for name, text in told), width, 2)
    end = [
        _shorten_line(f"Only {name} supports {format_count(len(rules), 'rule')}: {', '.join(rules)}", width)
        for name, rules in zip(names, compared.only, strict=True)
        if rules
    ]
    equal = f"Equal answers in {format_count(compared.same, 'case')}."
    end.append(equal if len(compared.differences) <= IN_FULL else f"{equal} --format markdown shows all in full.")
    rest = compared.differences[IN_FULL + IN_SHORT :]
    room = max(1, LINES - len(lines) - len(end))
    listed = rest if len(rest) <= room else rest[: room - 1]
    lines += [
        _draw_question(number, one, width, color) for number, one in enumerate(listed, start=IN_FULL + IN_SHORT + 1)
    ]
    if rest[len(listed) :]:
        lines.append(f"{format_count(len(rest) - len(listed), 'more question')} with different answers.")
    return lines + end


def _draw_formulas(compared: Compared, names: Sequence[str], width: int) -> Iterator[str]:
    if not compared.formulas:
        return
    rows = [(row.label, row.answers[0], "the same" if row.is_same else row.answers[1]) for row in compared.formulas]
    first = max(len(label) for label, *_ in rows) + 2
    rest = (width - first) // 2
    for label, *answers in [("c: threshold, n: norm", *names), *rows]:
        cells = [wrap_text(escape_line(text), rest - 2) for text in answers]
        for head, *parts in itertools.zip_longest([label], *cells, fillvalue=""):
            yield f"{head:{first}}{parts[0]:{rest}}{parts[1]}"
    yield ""


def _draw_question(number: int, one: Difference, width: int, color: bool) -> str:
    text = f"{number}. {one.severity}, {format_count(one.count, 'case')}: {one.question}"
    question = _shorten_line(text, width)
    return paint(question, "bold") if color else question


def _shorten(name: str) -> str:
    """Return a framework's name without its version, unless both are the same framework."""
    return name.rsplit(" ", 1)[0] if " " in name and not name.endswith(("(A)", "(B)")) else name


def _draw_in_full(one: Contrast, names: Sequence[str], width: int) -> Iterator[str]:
    for name, text, quote in zip(names, (one.first, one.second), one.quotes, strict=True):
        yield from _wrap_lines(f"{name}: {text}", width, 1)
        if quote:
            yield from _wrap_lines(f'  documented: "{quote}"', width, 1)
    yield from _wrap_lines(_write_example(one, names), width, 2)


def _write_example(one: Contrast, names: Sequence[str]) -> str:
    given = one.cells[0].input or one.cells[1].input
    few = [format_answer(cell, DIGITS) for cell in one.cells]
    told = few if few[0] != few[1] else [format_answer(cell) for cell in one.cells]
    answers = "; ".join(f"{name} gives {text}" for name, text in zip(names, told, strict=True))
    # The record of an answer that no rule judges does not hold the call.
    call = format_call(given, DIGITS) if given else f"case {one.cells[0].case}"
    return f"{one.cells[0].dtype}: {call}: {answers}"


def format_call(given: Any, digits: int = 0) -> str:
    """Return the gradients and the options of a call, without names of types."""
    if not isinstance(given, Mapping):
        return format_value(given)
    options = given.get("options")
    told = (
        [f"{name} {_format_number(value, digits)}" for name, value in options.items()]
        if isinstance(options, Mapping)
        else []
    )
    arrays = given.get("gradients")
    gradients = "no gradients" if arrays == [] else f"gradients {_format_gradients(arrays, digits)}"
    return ", ".join([gradients, *told])


def _format_gradients(arrays: Any, digits: int) -> str:
    if not isinstance(arrays, Sequence) or isinstance(arrays, str):
        return format_value(arrays)
    return " and ".join(_format_numbers(one, digits) for one in arrays)


def _format_numbers(array: Any, digits: int) -> str:
    if isinstance(array, Mapping) and isinstance(array.get("array"), Mapping):
        array = array["array"]
    values = array.get("values") if isinstance(array, Mapping) else None
    if not isinstance(values, list):
        return format_value(array)
    dtype = array.get("dtype")
    told = [_format_number(value, digits, dtype if isinstance(dtype, str) else "") for value in values[:SHOWN]]
    if array.get("shape") == [] and len(told) == 1:
        return told[0]
    return f"[{', '.join(told)}{', ...' if values[SHOWN:] else ''}]"


def _format_number(value: Any, digits: int, dtype: str = "float64") -> str:
    """Return a number with few digits, or with as many as its dtype needs."""
    if not digits or not isinstance(value, str) or not is_hex_float(value):
        return format_value({"dtype": dtype, "shape": [], "values": [value]}).partition("[] ")[2].strip("[]")
    return f"{float.fromhex(value):.{digits}g}"


def format_answer(cell: Cell, digits: int = 0) -> str:
    """Return the numbers of an answer, or what else came of the call."""
    if cell.status == "pass":
        return "the right result"
    observed = cell.observed
    if not isinstance(observed, Mapping):
        return format_value(observed)
    return ", ".join(
        _format_gradients(value, digits) if name == "gradients" else f"{name} {_format_numbers(value, digits)}"
        for name, value in observed.items()
    )


def _wrap_lines(text: str, width: int, most: int) -> Iterator[str]:
    lines = wrap_text(escape_line(text), width, INDENT, f"{INDENT}  ")
    if lines[most:]:
        # Join this line and the next one: together they are too long, so the result ends in dots.
        lines = [*lines[: most - 1], shorten_line(f"{lines[most - 1]} {lines[most].strip()}", width)]
    yield from lines


def _draw_markdown(compared: Compared) -> Iterator[str]:
    if compared.formulas:
        rows = [("c: threshold, n: norm", *compared.names), *((row.label, *row.answers) for row in compared.formulas)]
        yield draw_markdown_table([[escape_markdown(text) for text in row] for row in rows])
        yield ""
    for difference in compared.differences:
        yield f"### {escape_markdown(difference.question)}"
        yield ""
        for one in difference.contrasts:
            yield f"{escape_markdown(one.severity)}, {format_count(len(one.cases), 'case')}"
            yield ""
            for name, text, cell in zip(compared.names, (one.first, one.second), one.cells, strict=True):
                shown = (
                    f": {format_code(shorten_text(format_answer(cell), LENGTH))}" if cell.observed is not None else ""
                )
                quote = f' Its documentation: "{escape_markdown(cell.quote)}"' if cell.quote else ""
                yield f"- {escape_markdown(name)}: {escape_markdown(text)}{shown}{quote}"
            call = shorten_text(format_call(one.cells[0].input or one.cells[1].input), LENGTH)
            yield f"- example: {format_code(one.cells[0].case)}, {format_code(call)}"
            yield ""
    for name, rules in zip(compared.names, compared.only, strict=True):
        if rules:
            told = f"Only {name} supports {format_count(len(rules), 'rule')}: {', '.join(rules)}."
            yield escape_markdown(escape_line(told))
            yield ""
    yield f"Equal answers in {format_count(compared.same, 'case')}."


def _shorten_line(text: str, width: int) -> str:
    return shorten_line(escape_line(text), width)
