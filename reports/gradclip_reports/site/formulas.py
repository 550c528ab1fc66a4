"""Write formulas as MathML, which browsers show without a script and without a network."""

from __future__ import annotations

__all__ = ["write_mathml"]


def write_mathml(formula: str, display: str = "block") -> str:
    """Return a formula in LaTeX as MathML, within a sentence ("inline") or on a line of its own ("block").

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
