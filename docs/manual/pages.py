"""Extend Sphinx: fill in the parts of pages that come from data, keep the columns of examples, write formulas.

A page asks for a part by a comment such as `<!-- data: causes -->`, in a line of its own. The pages of the rules come
from data alone, and git ignores them.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from importlib.resources import files
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradclip_adapters.contract import FEATURES, LACKS
from gradclip_adapters.operations import OPERATIONS
from gradclip_reports.site.build import write_mathml
from gradclip_reports.statuses import NOT_RUN, Status
from gradclip_spec.rules import LEVELS, load
from gradclip_spec.rules.catalogue import write_operation, write_preface
from gradclip_spec.rules.causes import SEVERITIES, load_causes

if TYPE_CHECKING:
    import click
    from docutils import nodes
    from sphinx.application import Sphinx
    from sphinx.writers.html5 import HTML5Translator

#: The folder with the results of real runs, and the folder with their pages in the manual.
PUBLISHED = Path(__file__).parents[2] / "reports" / "published"
RESULTS = Path(__file__).parents[1] / "results"

#: A line that asks for a part: its name, and an argument if the part needs one.
ASKED = re.compile(r"^<!-- data: ([\w-]+)(?: (\S+))? -->$", re.MULTILINE)


def setup(app: Sphinx) -> dict[str, bool]:
    """Change the source of each page and the help of each command before Sphinx parses it, and render formulas."""
    write_rules(Path(app.srcdir, "reference"))
    app.setup_extension("sphinx_click")
    app.connect("source-read", _replace_source)
    app.connect("sphinx-click-process-description", _replace_description)
    inline, displayed = partial(_write_formula, "inline"), partial(_write_formula, "block")
    app.add_html_math_renderer("mathml", (inline, None), (displayed, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_rules(folder: Path) -> None:
    """Write a page into the folder for the rules of each operation, if it is not there already."""
    for operation in OPERATIONS.values():
        path = folder / f"rules-{operation.prefix}.md"
        head = "[The rule catalogue](rules.md) explains the words and the levels."
        text = f"# Rules of `{operation.function}`\n\n{head}\n\n{write_operation(operation.prefix)}"
        # Sphinx builds a page again only if its file is newer.
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def _replace_source(app: Sphinx, name: str, source: list[str]) -> None:
    del app
    source[0] = fill_page(source[0], name)


def _replace_description(app: Sphinx, context: click.Context, lines: list[str]) -> None:
    del app, context
    lines[:] = keep_columns(lines)


def _write_formula(display: str, translator: HTML5Translator, node: nodes.math | nodes.math_block) -> None:
    """Write a formula as the site of results does."""
    from docutils.nodes import SkipNode

    translator.body.append(write_mathml(node.astext(), display))
    # The LaTeX inside the node is already written.
    raise SkipNode


def keep_columns(lines: list[str]) -> list[str]:
    """Return the help of a command. Turn each block that click leaves unwrapped into a literal block.

    sphinx-click marks the lines of such a block by a bar. Sphinx would join their words, and so lose the columns.
    """
    kept: list[str] = []
    for is_marked, group in groupby(lines, lambda line: line.startswith("| ")):
        block = list(group)
        kept += [".. code-block:: text", "", *("    " + line[2:] for line in block), ""] if is_marked else block
    return kept


def fill_page(text: str, page: str) -> str:
    """Return the text of a page with all parts that it asks for.

    Raises
    ------
    ValueError
        If the page asks for a part that does not exist.
    """

    def write(found: re.Match[str]) -> str:
        part, argument = found[1], found[2]
        if part not in PARTS:
            message = f"{page}: there is no part {part!r}; there are {', '.join(PARTS)}"
            raise ValueError(message)
        return PARTS[part](argument) if argument else PARTS[part]()

    return ASKED.sub(write, text)


def write_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)


def write_statuses() -> str:
    """Return the table of statuses, worst first."""
    rows = [
        (status.emoji, f"`{status.value}`", status.meaning, "yes" if status.spoils else "")
        for status in Status
        if status is not NOT_RUN
    ]
    return write_table(("sign", "status", "meaning", "fails a run"), rows)


def write_severities() -> str:
    """Return the table of severities, worst first."""
    return write_table(("severity", "meaning"), ((f"`{name}`", text) for name, text in SEVERITIES.items()))


def write_levels() -> str:
    """Return the table of levels with the number of their rules."""
    levels = [rule.level for rule in load()]
    rows = ((f"`{level}`", text, str(levels.count(level))) for level, text in LEVELS.items())
    return write_table(("level", "meaning", "rules"), rows)


def write_causes() -> str:
    """Return all causes, the severest first, each under a heading of its own."""
    parts: list[str] = []
    for severity, meaning in SEVERITIES.items():
        parts.append(f"## {severity.capitalize()}: {meaning}")
        for cause in load_causes().values():
            if cause.severity == severity:
                title = _escape(cause.title[0].upper() + cause.title[1:])
                parts += [f"### `{cause.id}`", f"**{title}.** {cause.why}", f"*Question:* {cause.question}"]
                parts.append(f"*Themes of the rules that it may break:* {', '.join(cause.themes)}.")
    return "\n\n".join(parts)


def _escape(text: str) -> str:
    return text.replace("*", "\\*").replace("_", "\\_")


def write_features() -> str:
    """Return the table of abilities that an entry point can declare."""
    return write_table(("feature", "meaning"), ((f"`{name}`", text) for name, text in FEATURES.items()))


def write_lacks() -> str:
    """Return the table of what may be missing when a cell is `unsupported`."""
    return write_table(("kind", "meaning"), ((f"`{name}`", text) for name, text in LACKS.items()))


def write_schema(name: str) -> str:
    """Return the fields of a JSON Schema as a table, followed by the schema itself.

    The name joins a package and a file in the package's folder `schemas`, as in `gradclip_reports/cell.json`.
    """
    package, _, file = name.rpartition("/")
    text = files(package.replace("/", ".")).joinpath("schemas", file).read_text(encoding="utf-8")
    schema = json.loads(text)
    needed = schema.get("required", ())
    head = ["field", "type", "required", "meaning"]
    rows = [
        [f"`{field}`", _describe_type(value), "yes" if field in needed else "", value.get("description", "")]
        for field, value in schema["properties"].items()
    ]
    if not any(row[-1] for row in rows):
        head, rows = head[:-1], [row[:-1] for row in rows]
    parts = [
        schema.get("description") or f"{schema['title']}.",
        write_table(head, rows),
        "<details><summary>The JSON Schema</summary>",
        f"```json\n{text.rstrip()}\n```",
        "</details>",
    ]
    return "\n\n".join(parts)


def write_site_links() -> str:
    """Return links to the site of results, which `nox -s docs` builds beside the manual."""
    pages = {
        "index.html": "The answers to the questions, by framework",
        "compare.html": "What changes from one framework to another",
        "rules.html": "Who keeps which rule",
        "causes.html": "Who differs from the rules, and how",
    }
    # The pages are no sources of Sphinx, so the links are HTML.
    links = (f'<li><a href="../site/{page}">{text}</a></li>' for page, text in pages.items())
    return f"<ul>{''.join(links)}</ul>"


def write_published(name: str) -> str:
    """Return a page of `reports/published/`. Keep its pictures, and its links to the web and to pages of the manual."""
    text = (PUBLISHED / f"{name}.md").read_text(encoding="utf-8")

    def write_link(found: re.Match[str]) -> str:
        mark, words, target = found.groups()
        if mark:
            # Sphinx copies the picture from there.
            return f"![{words}](../../reports/published/{target})"
        return found[0] if "/" not in target and (RESULTS / target).is_file() else words

    return re.sub(r"(!?)\[([^\]]*)\]\((?!https?:)([^)]*)\)", write_link, text)


def _describe_type(value: Mapping[str, Any]) -> str:
    if "const" in value:
        return f"`{json.dumps(value['const'])}`"
    if "enum" in value:
        return " ".join(f"`{json.dumps(one)}`" for one in value["enum"])
    if "$ref" in value:
        return f"{value['$ref'].rpartition('/')[2]}"
    for word in ("anyOf", "oneOf"):
        if word in value:
            return " or ".join(_describe_type(one) for one in value[word])
    kinds = value.get("type", "anything")
    text = kinds if isinstance(kinds, str) else " or ".join(kinds)
    if "items" in value:
        text += f" of {_describe_type(value['items'])}"
    return text


def write_oracles() -> str:
    """Return a sentence on how many published records were made with both oracles."""
    every = []
    for path in sorted(PUBLISHED.glob("*.jsonl.gz")):
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            every.append(json.loads(next(lines))["environment"].get("second_oracle", "not installed"))
    both = sum(each != "not installed" for each in every)
    return f"Of the {len(every)} published records, {both} {'was' if both == 1 else 'were'} made with both."


#: The function that writes each part.
PARTS: dict[str, Callable[..., str]] = {
    "causes": write_causes,
    "features": write_features,
    "lacks": write_lacks,
    "levels": write_levels,
    "oracles": write_oracles,
    "preface": write_preface,
    "published": write_published,
    "schema": write_schema,
    "severities": write_severities,
    "site": write_site_links,
    "statuses": write_statuses,
}
