"""Prove that each target can find faults: after one escape, limit or check is removed, a few turns find a failure."""

from __future__ import annotations

import contextlib
import importlib
import itertools
import json
import tomllib
from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from fuzzing.driver import check_example, run_turn, sweep
from fuzzing.target import NAMES, load_target
from fuzzing.texts import PAYLOADS

import gradclip_spec
from gradclip_adapters import host, plain, wire
from gradclip_conformance import cli
from gradclip_conformance.known import pins
from gradclip_conformance.repro import script, tables
from gradclip_conformance.run import messages
from gradclip_reports import (
    brief,
    difference_text,
    finding_text,
    junit,
    markdown,
    markup,
    outcomes,
    reading,
    summary,
    terminal,
    values,
)
from gradclip_reports.site import build, slugs, views

#: The number of turns. With seed 1 they find each break. Other seeds were not tried.
TURNS = 6

#: Texts with a meaning in a terminal, in XML, in Markdown and in its tables.
HOSTILE = ("a`b|c", "\x1b[31m\u202e", "<b>*x*\n\n# y [z](w)", "<img src=x onerror=y>")


class NoSchema:
    """A schema that accepts everything."""

    def iter_errors(self, members: Any) -> list[Any]:
        """Return no errors."""
        del members
        return []


def clip_too_far(grads: Any, clip_norm: Any, **options: Any) -> Any:
    """Clip to a threshold that is one percent too small."""
    return ORIGINAL(grads, clip_norm * 0.99 if isinstance(clip_norm, float) else clip_norm, **options)


def answer_without_care(adapter: Any, message: Any) -> Any:
    """Answer a message without checking it."""
    return wire.encode_reply(adapter.call(wire.decode_call(message)), message["number"])


@contextlib.contextmanager
def call_without_care(inputs: Any) -> Iterator[SimpleNamespace]:
    """Let exceptions of a function propagate."""
    del inputs
    yield SimpleNamespace(warnings=())


def keep(text: str) -> str:
    """Return a text without escapes."""
    return text


def join_lines(paragraphs: Sequence[str]) -> str:
    """Return a docstring without escapes."""
    return '"""' + "\n".join(paragraphs) + '"""'


def load_templates_without_escapes() -> Any:
    """Return the templates of the site. They write every text as it is."""
    return LOAD_TEMPLATES().overlay(autoescape=False)


def call_without_escapes(name: str, *members: Any) -> str:
    """Return a script that hands data to a function. A text can end the script."""
    return f"{name}({', '.join(map(json.dumps, members))});\n"


ORIGINAL, LOAD_TEMPLATES = gradclip_spec.clip_by_norm, build._load_templates

#: The breaks of each target: a module, the name of a function in it, and the broken function that gets this name.
BREAKS: dict[str, list[tuple[Any, str, Callable[..., Any]]]] = {
    "answers": [(messages, "read_message", json.loads)],
    "greetings": [(wire, "check_subjects", tuple)],
    "calls": [(host, "answer", answer_without_care)],
    "records": [
        (reading, "find_violation", lambda members, schema: ""),
        (terminal, "escape_text", keep),
        (markup, "escape_line", keep),
        (values, "escape_line", keep),
        (markdown, "escape_markdown", keep),
        (markdown, "escape_html", keep),
        (markdown, "format_code", lambda text, in_table=False: f"`{text}`"),
        (markdown, "format_code_in_html", lambda text: f"<code>{text}</code>"),
        (junit, "escape_text", keep),
        (outcomes, "escape_text", keep),
        (finding_text, "escape_line", keep),
        (brief, "escape_line", keep),
        (difference_text, "escape_line", keep),
        (summary, "write_json", lambda document, indent=None: json.dumps(document, ensure_ascii=False)),
        (build, "_load_templates", load_templates_without_escapes),
        (build, "_call", call_without_escapes),
        (views, "is_safe_link", bool),
        (slugs.Slugs, "choose", lambda self, text: text),
    ],
    "scripts": [(script, "write_docstring", join_lines)],
    "known_files": [(pins, "read_toml", lambda path: tomllib.loads(path.read_text(encoding="utf-8")))],
    "own_files": [(tables, "read_toml", lambda path: tomllib.loads(path.read_text(encoding="utf-8")))],
    "command_line": [(cli, "_escape_errors", contextlib.nullcontext)],
    "reference": [(gradclip_spec, "clip_by_norm", clip_too_far)],
    "scripted_host": [(messages, "read_message", json.loads)],
    "plain_functions": [(plain, "framework_call", call_without_care)],
}


def test_each_target_has_a_break() -> None:
    assert set(BREAKS) == set(NAMES)


@pytest.mark.exam(sample=0)
@pytest.mark.parametrize(
    ("target", "place", "name", "broken"),
    [(target, *one) for target, breaks in BREAKS.items() for one in breaks],
    ids=[
        f"{target}-{one[0].__name__.rpartition('.')[2]}.{one[1]}" for target, breaks in BREAKS.items() for one in breaks
    ],
)
def test_target_finds_what_is_broken(
    target: str, place: Any, name: str, broken: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that a few turns find the break. `test_fuzz` shows that a turn finds nothing without it.

    Few random records put a hostile text into the member that a break concerns. So for records and scripts, examples
    that put such texts into every member come first.
    """
    monkeypatch.setattr(place, name, broken)

    hostile = (example for text in (*HOSTILE, *PAYLOADS) for example in list_hostile(target, text))
    found = any(is_found(target, example) for example in hostile)
    assert found or any(run_turn(target, seed=1, turn=turn, shrink=False)[1] for turn in range(TURNS))


@pytest.mark.exam
@pytest.mark.parametrize("target", ["records", "scripts"])
@pytest.mark.parametrize("text", [*HOSTILE, PAYLOADS[1]])
def test_hostile_examples_find_nothing(target: str, text: str) -> None:
    assert not any(is_found(target, example) for example in list_hostile(target, text))


def list_hostile(target: str, text: str) -> list[dict[str, Any]]:
    """List examples that put a text into members of a record. Import late, because these imports take seconds."""
    if target == "records":
        return importlib.import_module("fuzzing.targets.records").list_hostile_examples("torch", [text])
    if target == "scripts":
        return importlib.import_module("fuzzing.targets.scripts").list_hostile_examples([text])
    return []


@pytest.mark.exam
@pytest.mark.parametrize("name", ["calls", "greetings"])
def test_sweep_finds_nothing_in_every_tenth_example(name: str) -> None:
    checked, finds = sweep(name, list_every_tenth(name), lambda found: None)

    assert checked > 200
    assert finds == 0


@pytest.mark.exam
def test_sweep_finds_what_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wire, "_decode_text", lambda text, what: text)

    assert sweep("calls", list_every_tenth("calls"), lambda found: None)[1] > 0


def list_every_tenth(name: str) -> Iterator[Any]:
    """List every tenth example of a sweep. Import late, because this import takes seconds."""
    from fuzzing.sweep import SWEEPS

    return itertools.islice(SWEEPS[name](), 0, None, 10)


def is_found(target: str, example: Any) -> bool:
    """Return whether the check of a target fails for an example."""
    try:
        check_example(load_target(target), example)
    except Exception:  # noqa: BLE001 - a find is any exception
        return True
    return False
