"""Write formulas as MathML, which browsers show without a script and without a network."""

from __future__ import annotations

from functools import partial

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

__all__ = ["setup"]


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the renderer `mathml` to Sphinx."""
    inline, displayed = partial(write_formula, "inline"), partial(write_formula, "block")
    app.add_html_math_renderer("mathml", (inline, None), (displayed, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def convert_formula(formula: str, display: str) -> str:
    """Return a formula in LaTeX as MathML."""
    # The converter forgets the spaces around this arrow.
    return str(convert(formula.replace(r"\implies", r"\;\Longrightarrow\;"), display=display))


def write_formula(display: str, translator: HTML5Translator, node: nodes.math | nodes.math_block) -> None:
    """Write a formula within a sentence ("inline"), or on a line of its own ("block").

    Raises
    ------
    docutils.nodes.SkipNode
        Always, because the LaTeX inside the node is already written.
    """
    translator.body.append(convert_formula(node.astext(), display))
    raise nodes.SkipNode
