"""Write the formulas of the rules as MathML, from the part of LaTeX that the rule book uses."""

from __future__ import annotations

import re
from collections.abc import Callable
from xml.sax.saxutils import escape

__all__ = ["UnknownLatex", "write_mathml"]

_SIGN_PATTERN = re.compile(r"\\[a-zA-Z]+|\\.|\d+(?:\.\d+)?|[A-Za-z]|\s+|.", re.DOTALL)

#: Signs by their commands.
_SIGNS = {
    "\\leq": "≤",
    "\\geq": "≥",
    "\\cdot": "·",
    "\\implies": "⟹",
    "\\iff": "⟺",
    "\\approx": "≈",
    "\\infty": "∞",
    "\\pm": "±",
    "\\mapsto": "↦",
    "\\leftarrow": "←",
    "\\leftrightarrow": "↔",
    "\\dots": "…",
    "\\partial": "∂",
    "\\sum": "∑",
}
_LETTERS = {"\\pi": "π", "\\eta": "η", "\\lambda": "λ", "\\varepsilon": "ε"}
_NAMES = {"\\min": "min", "\\max": "max"}
_SPACES = {"\\ ": "0.3em", "\\,": "0.17em", "\\quad": "1em"}


class UnknownLatex(ValueError):
    """A formula holds a command that this module does not know."""


def write_mathml(latex: str) -> str:
    """Return a formula as a block of MathML.

    Raises
    ------
    UnknownLatex
        If the formula holds an unknown command, or braces that do not match.
    """
    signs = [sign for sign in _SIGN_PATTERN.findall(latex) if not sign.isspace()]
    parser = _Parser(signs)
    body = parser.read_until("")
    annotation = f'<annotation encoding="application/x-tex">{escape(latex)}</annotation>'
    return f'<math display="block"><semantics><mrow>{body}</mrow>{annotation}</semantics></math>'


class _Parser:
    """Read signs from left to right."""

    def __init__(self, signs: list[str]) -> None:
        self.signs = signs
        self.place = 0

    def read_until(self, end: str) -> str:
        """Return what stands before the sign `end`, and skip that sign. Without one, read to the end."""
        parts: list[str] = []
        while self.place < len(self.signs):
            if self.signs[self.place] == end:
                self.place += 1
                return "".join(parts)
            parts.append(self.read_scripted())
        if end:
            message = f"{end!r} is missing"
            raise UnknownLatex(message)
        return "".join(parts)

    def read_scripted(self) -> str:
        """Return one atom with its index and its exponent."""
        base = self.read_atom()
        scripts: dict[str, str] = {}
        while self.place < len(self.signs) and self.signs[self.place] in "_^" and len(scripts) < 2:
            kind = self.signs[self.place]
            self.place += 1
            scripts[kind] = self.read_atom()
        # A sum, a maximum and a minimum have their bounds below the sign.
        below = base in ("<mo>∑</mo>", "<mi>max</mi>", "<mi>min</mi>")
        tags = {"_": "munder" if below else "msub", "^": "mover" if below else "msup"}
        if len(scripts) == 2:
            tag = "munderover" if below else "msubsup"
            return f"<{tag}>{base}{scripts['_']}{scripts['^']}</{tag}>"
        for kind, script in scripts.items():
            return f"<{tags[kind]}>{base}{script}</{tags[kind]}>"
        return base

    def read_atom(self) -> str:
        """Return one sign, letter, number, group or command with its arguments."""
        if self.place == len(self.signs):
            message = "the formula ends too early"
            raise UnknownLatex(message)
        sign = self.signs[self.place]
        self.place += 1
        if sign == "{":
            return f"<mrow>{self.read_until('}')}</mrow>"
        if sign.startswith("\\"):
            return self.read_command(sign)
        if sign.isalpha():
            return f"<mi>{escape(sign)}</mi>"
        if sign[0].isdigit():
            return f"<mn>{sign}</mn>"
        # Brackets grow with what they hold only between \\left and \\right.
        fixed = ' stretchy="false"' if sign in "()[]|" else ""
        return f"<mo{fixed}>{escape('−' if sign == '-' else sign)}</mo>"

    def read_command(self, sign: str) -> str:
        """Return a command with its arguments."""
        for table, write in _TABLES:
            if sign in table:
                return write(table[sign])
        if sign == "\\left":
            opened, body, closed = self.take(), self.read_until("\\right"), self.take()
            return f"<mrow><mo>{escape(opened)}</mo>{body}<mo>{escape(closed)}</mo></mrow>"
        if sign == "\\not":
            return f"<mo>{self.read_atom().removeprefix('<mo>').removesuffix('</mo>')}&#x338;</mo>"
        if sign == "\\sqrt":
            return f"<msqrt>{self.read_atom()}</msqrt>"
        if sign == "\\frac":
            return f"<mfrac>{self.read_atom()}{self.read_atom()}</mfrac>"
        if sign == "\\mathrm":
            return self.read_words()
        message = f"{sign} is unknown"
        raise UnknownLatex(message)

    def take(self) -> str:
        """Return the next sign."""
        sign = self.signs[self.place] if self.place < len(self.signs) else ""
        self.place += 1
        return sign

    def read_words(self) -> str:
        """Return a group of upright words."""
        found: list[str] = []
        if self.take() != "{":
            message = "\\mathrm needs braces"
            raise UnknownLatex(message)
        while (sign := self.take()) != "}":
            if not sign:
                message = "'}' is missing"
                raise UnknownLatex(message)
            found.append(" " if sign in _SPACES else sign)
        text = escape("".join(found))
        return f"<mtext>{text}</mtext>" if " " in text else f'<mi mathvariant="normal">{text}</mi>'


def _write_space(width: str) -> str:
    return f'<mspace width="{width}"/>'


_TABLES: tuple[tuple[dict[str, str], Callable[[str], str]], ...] = (
    (_SIGNS, lambda sign: f"<mo>{sign}</mo>"),
    (_LETTERS, lambda letter: f"<mi>{letter}</mi>"),
    (_NAMES, lambda name: f"<mi>{name}</mi>"),
    (_SPACES, _write_space),
)
