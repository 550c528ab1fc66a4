"""Load the questions of the matrix, and the words of their answers, from `questions.toml`."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from importlib.resources import files
from typing import Any

from . import check_keys, load
from .causes import load_causes

#: The table that answers a question, if records do not answer it.
MEASURES = ("", "accuracy", "speed")


@dataclass(frozen=True)
class Words:
    """The words for the cells that fulfil all conditions. An empty condition holds for every cell."""

    words: str
    #: Whether the cell agrees with its rule.
    right: bool | None = None
    #: The cause that explains the cell.
    cause: str = ""
    #: The suite's word for the answer.
    behaviour: str = ""
    #: The rule's name, without its operation.
    rule: str = ""
    #: The reason why the cell could not be asked.
    lacks: str = ""
    operation: str = ""


@dataclass(frozen=True)
class Question:
    """One question of the matrix."""

    id: str
    #: The head of its row.
    short: str
    text: str
    #: The reason why a user asks.
    why: str
    #: The rules that answer it: names without an operation, each with an optional variant after a slash.
    rules: tuple[str, ...] = ()
    #: The dtypes of the cells that answer it. If there are none, every dtype counts.
    dtypes: tuple[str, ...] = ("float32",)
    causes: tuple[str, ...] = ()
    answers: tuple[Words, ...] = ()
    #: One of :data:`MEASURES`.
    measure: str = ""
    #: For the speed: the workload, the measurement of the memory, and the name of each adapter in the table.
    workload: str = ""
    floor: str = ""
    peers: Mapping[str, str] = field(default_factory=dict)


@cache
def load_questions() -> tuple[Question, ...]:
    """Return every question, in the order of the file."""
    return parse_questions(files(__package__).joinpath("questions.toml").read_text(encoding="utf-8"))


def parse_questions(text: str) -> tuple[Question, ...]:
    """Return the questions in a text.

    Raises
    ------
    ValueError
        If an entry is malformed, or names a rule or a cause that does not exist; the message names the entry.
    """
    document = tomllib.loads(text)
    defaults = tuple(_read_words(entry, "the defaults") for entry in document.pop("default", []))
    questions = [_read_question(entry, defaults) for entry in document.pop("question", [])]
    if document:
        message = f"questions.toml holds {sorted(document)} beside its questions and defaults"
        raise ValueError(message)
    if len({one.id for one in questions}) < len(questions):
        message = f"questions.toml has an id twice: {[one.id for one in questions]}"
        raise ValueError(message)
    return tuple(questions)


def _read_question(entry: Mapping[str, Any], defaults: tuple[Words, ...]) -> Question:
    where = f"the question {entry.get('id', '(without id)')}"
    known = {one.name for one in fields(Question)} - {"answers"}
    check_keys(entry, known | {"answer"}, {"id", "short", "text", "why"}, where)
    words = tuple(_read_words(one, where) for one in entry.get("answer", ()))
    members: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in entry.items()
    }
    members.pop("answer", None)
    question = Question(**members, answers=(*words, *defaults))
    rules = {rule.name for rule in load()}
    causes = {*question.causes, *(one.cause for one in words)} - {""}
    unknown = [name for name in question.rules if name.partition("/")[0] not in rules]
    unknown += sorted(causes - load_causes().keys())
    if unknown or question.measure not in MEASURES or bool(question.rules) == bool(question.measure):
        message = (
            f"{where} needs rules or a measure, not both, and each name must exist; got {list(question.rules)} and "
            f"{question.measure!r}, unknown: {unknown}"
        )
        raise ValueError(message)
    return question


def _read_words(entry: Mapping[str, Any], where: str) -> Words:
    check_keys(entry, {one.name for one in fields(Words)}, {"words"}, f"an answer of {where}")
    return Words(**entry)
