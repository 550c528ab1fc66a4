"""Write formulas as MathML, which browsers show without a script and without a network."""

from __future__ import annotations

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.writers.html5 import HTML5Translator

__all__ = ["setup"]


def setup(app: Sphinx) -> dict[str, bool]:
    """Add the renderer `mathml` to Sphinx."""
    app.add_html_math_renderer("mathml", (write_inline_formula, None), (write_displayed_formula, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}


def convert_formula(formula: str, display: str) -> str:
    """Return a formula in LaTeX as MathML."""
    # The converter forgets the spaces around this arrow.
    return str(convert(formula.replace(r"\implies", r"\;\Longrightarrow\;"), display=display))


def write_inline_formula(translator: HTML5Translator, node: nodes.math) -> None:
    """Write a formula within a sentence.

    Raises
    ------
    docutils.nodes.SkipNode
        Always, because the LaTeX inside the node is already written.
    """
    translator.body.append(convert_formula(node.astext(), "inline"))
    raise nodes.SkipNode


def write_displayed_formula(translator: HTML5Translator, node: nodes.math_block) -> None:
    """Write a formula on a line of its own.

    Raises
    ------
    docutils.nodes.SkipNode
        Always, because the LaTeX inside the node is already written.
    """
    translator.body.append(convert_formula(node.astext(), "block"))
    raise nodes.SkipNode
