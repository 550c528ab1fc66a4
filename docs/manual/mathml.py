"""Let Sphinx write formulas as the site of results does."""

from __future__ import annotations

from functools import partial

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

from gradclip_reports.site.formulas import write_mathml

__all__ = ["setup"]


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the renderer `mathml` to Sphinx."""
    inline, displayed = partial(write_formula, "inline"), partial(write_formula, "block")
    app.add_html_math_renderer("mathml", (inline, None), (displayed, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def write_formula(display: str, translator: HTML5Translator, node: nodes.math | nodes.math_block) -> None:
    """Write a formula within a sentence ("inline"), or on a line of its own ("block").

    Raises
    ------
    docutils.nodes.SkipNode
        Always, because the LaTeX inside the node is already written.
    """
    translator.body.append(write_mathml(node.astext(), display))
    raise nodes.SkipNode
