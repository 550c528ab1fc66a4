"""Write a static site: HTML pages, one style sheet, one script, and scripts with data.

The site works from a file, without a network. Nothing that a record says becomes a path: pages get names from
`slugs`, and the templates escape every text.
"""

from __future__ import annotations

import functools
import importlib.resources
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradclip_spec.rules import Rule

from ..counting import choose_verdict
from ..lines import Cell, RecordError, Run
from ..matrix import Tally
from ..statuses import NOT_RUN, SEVERITIES, Status
from ..values import escape_text
from .catalogue import (
    LEVELS,
    MATRIX_PAGES,
    OPERATION_LABELS,
    OTHER_LABELS,
    STANDINGS_OF_FINDINGS,
    VERDICTS,
    Catalogue,
)
from .questions import PREFIXES, STANDING_OF, STANDINGS, Answer, find_others, write_answer
from .slugs import Slugs
from .views import FindingView, RunView, make_views

if TYPE_CHECKING:
    import jinja2

#: More runs than this do not fit into one table. The largest matrix that is tested has 30.
LARGEST = 100
#: At most this many rules of one run are listed. The others are only counted.
_RULES = 1000
#: The adapters of the commonest port. The page of comparisons opens with it if both have a record.
_PORT = ("torch", "tensorflow")


def write_no_script(run: Run, cell: Cell) -> str:
    """Return no script. This function is the default where no writer of scripts is given."""
    del run, cell
    return ""


def build_site(
    runs: Sequence[tuple[Run, str]],
    folder: Path,
    catalogue: Catalogue,
    write_script: Any = write_no_script,
    older: Sequence[Run] = (),
    manual: str = "",
) -> int:
    """Write the site into a folder, which is made if it is missing.

    Parameters
    ----------
    runs
        Each run with the name of its record, for commands that readers copy.
    folder
        The folder. Files of an older site in it are replaced.
    catalogue
        The rules, the causes, the questions and the measurements.
    write_script
        A function that writes the script of a cell; see :data:`views.ScriptWriter`.
    older
        Runs of other versions. They get no page, but say since when and until when a finding is shown.
    manual
        The address of the manual, relative to the folder, for a link on each page. Without it there is no such link.

    Returns
    -------
    int
        The number of files.

    Raises
    ------
    RecordError
        If there is no run, or there are too many.
    ModuleNotFoundError
        If the package Jinja2 is not installed.
    """
    if not 0 < len(runs) <= LARGEST:
        message = f"A site shows 1 to {LARGEST} runs; {len(runs)} were given."
        raise RecordError(message)
    site = _Site(make_views(runs, catalogue, write_script, older), catalogue, manual)
    count = 0
    for name, text in site.write_pages():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8", newline="\n")
        count += 1
    return count


class _Site:
    def __init__(self, views: Sequence[RunView], catalogue: Catalogue, manual: str) -> None:
        self.views = views
        self.catalogue = catalogue
        self.manual = manual
        self.suites = sorted({view.header.suite["version"] for view in views})
        slugs = Slugs()
        self.rule_pages = {rule.id: slugs.choose(rule.id) for rule in catalogue.rules}
        self.templates = _load_templates()

    def write_pages(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the text of each file."""
        static = importlib.resources.files(__package__) / "static"
        for name in ("site.css", "site.js"):
            yield f"static/{name}", (static / name).read_text("utf-8")
        yield from self._write_overviews()
        for view in self.views:
            yield f"framework/{view.slug}.html", self._render("framework.html", "../", **self._describe_run(view))
            for entry in view.entries:
                rules = [(rule, tally, _find_verdict(tally)) for rule, tally in entry.rules]
                page = self._render("entry.html", "../", view=view, entry=entry, rules=rules)
                yield f"entry/{entry.slug}.html", page
            yield f"data/{view.slug}.js", _call("gradclipRun", view.slug, self._list_data(view))
        yield from self._write_book()
        told = [{"id": one.id, "text": one.text} for one in self.catalogue.questions]
        yield "data/questions.js", _call("gradclipQuestions", told)

    def _render(self, template: str, root: str, **members: Any) -> str:
        dates = [view.date for view in self.views]
        stamp = f"Records of gradclip-spec {', '.join(self.suites)}, made from {min(dates)} to {max(dates)}."
        page = self.templates.get_template(template)
        shared = {
            "views": self.views,
            "questions": self.catalogue.questions,
            "RULE_PAGES": self.rule_pages,
            "pair": _choose_pair(self.views),
            "manual": self.manual,
        }
        return page.render(root=root, stamp=stamp, **shared, **members)

    def _write_overviews(self) -> Iterator[tuple[str, str]]:
        for operation, name in MATRIX_PAGES.items():
            yield f"{name}.html", self._render("index.html", "", operation=operation)
        yield "compare.html", self._render("compare.html", "", labels=self._label_runs())
        rules = [(rule, *self._count_verdicts(rule)) for rule in self.catalogue.rules]
        yield "rules.html", self._render("rules.html", "", rows=rules)
        shown = [
            (cause, sum(any(one.shows(cause.id) for one in view.findings) for view in self.views))
            for cause in self.catalogue.causes
        ]
        yield "causes.html", self._render("causes.html", "", rows=shown)

    def _write_book(self) -> Iterator[tuple[str, str]]:
        for rule in self.catalogue.rules:
            rows = [(view, *self._judge(view, rule.id)) for view in self.views]
            formula = _mark_safe(write_mathml(rule.formula)) if rule.formula else ""
            page = self._render("rule.html", "../", rule=rule, formula=formula, rows=rows)
            yield f"rule/{self.rule_pages[rule.id]}.html", page
        for cause in self.catalogue.causes:
            found = [(view, one) for view in self.views for one in view.findings if one.shows(cause.id)]
            yield f"cause/{cause.id}.html", self._render("cause.html", "../", cause=cause, rows=found)

    def _describe_run(self, view: RunView) -> dict[str, Any]:
        judged = [(rule, tally, _find_verdict(tally)) for rule, tally in view.rules.items()]
        rules = sorted(judged, key=lambda one: VERDICTS.index(one[2][0]))
        return {
            "view": view,
            "anchors": {one.number: one.anchor for one in view.findings},
            "severities": list(dict.fromkeys(one.finding.severity for one in view.findings)),
            "standings": list(dict.fromkeys(one.standing for one in view.findings)),
            "rules": rules[:_RULES],
            "more_rules": max(0, len(rules) - _RULES),
            "verdicts": list(dict.fromkeys(verdict for _, _, (_, verdict) in rules[:_RULES])),
        }

    def _label_runs(self) -> dict[str, str]:
        """Return the headings of the runs, with the day where several have the same heading."""
        times = Counter(view.heading for view in self.views)
        return {
            view.slug: view.heading if times[view.heading] == 1 else f"{view.heading}, {view.date}"
            for view in self.views
        }

    def _judge(self, view: RunView, rule: str) -> tuple[tuple[str, str], Tally | None, list[FindingView]]:
        """Return the verdict on a rule with its class, the statuses of its cells, and the findings that name it."""
        tally = view.rules.get(rule)
        findings = [one for one in view.findings if rule in one.finding.rules]
        return _find_verdict(tally), tally, findings

    def _count_verdicts(self, rule: Rule) -> tuple[int, list[RunView]]:
        verdicts = [(view, _find_verdict(view.rules.get(rule.id))[1]) for view in self.views]
        kept = sum(verdict == "kept" for _, verdict in verdicts)
        return kept, [view for view, verdict in verdicts if verdict == "broken"]

    def _list_data(self, view: RunView) -> dict[str, Any]:
        return {
            "heading": view.heading,
            "date": view.date,
            "record": view.record,
            "glyphs": {name: glyph for name, (glyph, _) in STANDINGS.items()},
            "answers": {
                operation: {name: [found[0].standing, write_answer(found)] for name, found in answers.items()}
                for operation, answers in view.answers.items()
            },
            "formulas": view.formulas,
            "findings": [
                {"heading": heading, "severity": severity, "standing": one.standing, "anchor": one.anchor}
                for one in view.findings
                for heading, severity in one.singles
            ],
            "rules": {rule: _find_verdict(tally)[1] for rule, tally in view.rules.items() if rule in self.rule_pages},
        }


def _choose_pair(views: Sequence[RunView]) -> Sequence[RunView]:
    """Return the two runs with which the page of comparisons opens: the commonest port, or the first two runs.

    Of several runs of one adapter, return the newest. If there is only one run, return it alone.
    """
    newest = {view.header.adapter: view for view in sorted(views, key=lambda view: view.header.started)}
    return [newest[name] for name in _PORT] if newest.keys() >= {*_PORT} else views[:2]


def _find_verdict(tally: Tally | None) -> tuple[str, str]:
    """Return the class and the word for what became of a rule."""
    verdict = choose_verdict(set(tally.counts)) if tally is not None else "not asked"
    return {"broken": "broken", "documented": "documented", "kept": "right"}.get(verdict, "unknown"), verdict


def write_mathml(formula: str, display: str = "block") -> str:
    """Return a formula in LaTeX as MathML, within a sentence ("inline") or on a line of its own ("block").

    Browsers show MathML without a script and without a network.

    Raises
    ------
    ModuleNotFoundError
        If the package latex2mathml is not installed.
    """
    try:
        from latex2mathml.converter import convert
    except ModuleNotFoundError as error:
        message = "Formulas are written by the package latex2mathml: install gradclip-spec[check]."
        raise ModuleNotFoundError(message, name="latex2mathml") from error
    # The converter forgets the spaces around this arrow.
    return str(convert(formula.replace(r"\implies", r"\;\Longrightarrow\;"), display=display))


def _call(name: str, *members: Any) -> str:
    """Return a script that hands data to a function. No text in it can end the script."""
    told = (json.dumps(member, ensure_ascii=True, allow_nan=False).replace("<", "\\u003c") for member in members)
    return f"{name}({', '.join(told)});\n"


def _mark_safe(text: str) -> Any:
    import markupsafe

    # The text is markup of this package, in which every foreign text is escaped.
    return markupsafe.Markup(text)  # noqa: S704


def _write_answer(answers: Sequence[Answer]) -> Any:
    """Return an answer as markup, in which the number of other entry points is on one line, in the worst colour."""
    import markupsafe

    text = str(markupsafe.escape(escape_text(write_answer(answers))))
    others = find_others(answers)
    if not others:
        return _mark_safe(text)
    words, _, number = text.rpartition(" (")
    standing = min(others, key=lambda answer: answer.rank).standing
    together = f"({number}".replace(" ", "&nbsp;")
    return _mark_safe(f'{words} <span class="{standing}">{together}</span>')


def _escape(value: Any) -> Any:
    """Make visible the characters that would act on a terminal, or reverse the direction of a line."""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return escape_text(value)
    return value


@functools.cache
def _load_templates() -> jinja2.Environment:
    try:
        import jinja2
    except ModuleNotFoundError as error:
        message = "A site needs the package Jinja2: install gradclip-spec[check]."
        raise ModuleNotFoundError(message, name="jinja2") from error
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader(str(__package__)),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_escape,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    labels = {operation: label for operation, label in OPERATION_LABELS.items() if operation}
    environment.globals.update(
        STANDINGS=STANDINGS,
        STATUSES=[status for status in Status if status != NOT_RUN],
        SEVERITIES=SEVERITIES,
        STANDING_OF=STANDING_OF,
        WORDS=STANDINGS_OF_FINDINGS,
        LEVELS=LEVELS,
        OPERATIONS=labels,
        EVERY_OPERATION={**labels, **OTHER_LABELS},
        OPERATION_LABELS=OPERATION_LABELS,
        MATRIX_PAGES=MATRIX_PAGES,
        PREFIXES={PREFIXES[operation]: label for operation, label in (labels | OTHER_LABELS).items()},
        write_answer=_write_answer,
    )
    return environment
