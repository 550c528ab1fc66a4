"""Draw texts that attack programs which execute or render them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

__all__ = ["CANARY", "PAYLOAD", "draw_attacks", "draw_json_values", "draw_mostly", "draw_raw_json", "draw_texts"]

#: The file that a payload creates in the working directory when it is executed.
CANARY = "gradclip-fuzz-canary"
PAYLOAD = f"open('{CANARY}', 'w')"

#: Text that ends the data around a payload, so that the payload becomes code.
ESCAPES = (
    "{}",
    '""";{};"""',
    "''';{};'''",
    '";{};"',
    "';{};'",
    '\\""";{};"""',
    "\n{}\n",
    "\r{}\r",
    "0); {}; dict(y",
    "0) or ({}",
    "[foreach=None) and 0 or ({})]",
    "os;{}#:f",
    "os:getcwd;{}#",
    "__import__('os').system('touch gradclip-fuzz-canary')",
    "{{{}}}",
    "${{{}}}",
    "$values",
    "\\N{{BULLET}}\\x41\\",
)

#: Text that changes the meaning of the format around it.
BREAKERS = (
    "",
    " ",
    "\x00",
    "\x1b[31mred\x1b]0;title\x07",
    "\x1b[2J\x1b[H",
    "\x9b31m",
    "a\rb",
    "a\nb",
    "\n\n# heading\n\n",
    "\n\n<script>alert(1)</script>\n\n",
    "|a|b|",
    "`a``b```",
    "</code></summary></details>",
    "![x](http://x)[y](http://y)",
    "<!--",
    "]]>",
    "&amp;&lt;\"'",
    "[bold]x[/bold][/]",
    "\u202eevil\u2066",
    "\u2028a\u2029b\x85c\x0bd\x0ce",
    "\ud800",
    "\udfff\ud800",
    "\ufffe\uffff",
    "e\u0301" * 20,
    "\U0001f468\u200d\U0001f469",
    "\u3000\u00a0\ufeff",
    "../../../x",
    "/etc/passwd",
    "~/x",
    "-o",
    "--help",
    "@file",
    "C:\\x",
    "a/b",
    "a/b/c",
    "x.py",
    "x:y",
    "x.y:z",
    "numpy",
    "torch",
    "nan",
    "inf",
    "0x1p+0",
    "0x1p+99999",
    "-0x0p+0",
    "1e999",
    "9" * 5000,
    "\u0663",
    "*",
    "*" * 30 + "x",
    "[!]",
    "%s%n{0.__class__}",
    '"\n\n[[known]]\nsubjects=["*"]\n',
    '# x\n[[known]]\nrules = ["*"]\n#',
)

PAYLOADS = tuple(escape.format(PAYLOAD) for escape in ESCAPES)


def draw_attacks() -> SearchStrategy[str]:
    """Draw attacks, alone or inside another text."""
    single = st.sampled_from(BREAKERS) | st.sampled_from(PAYLOADS)
    return single | st.tuples(single, single).map("".join) | st.tuples(st.text(max_size=8), single).map("".join)


def draw_mostly(usual: SearchStrategy[Any], other: SearchStrategy[Any]) -> SearchStrategy[Any]:
    """Draw an odd value one time in ten, and else a usual one. A document of odd values alone is refused at once."""
    return st.sampled_from((usual,) * 9 + (other,)).flatmap(lambda chosen: chosen)


def draw_texts() -> SearchStrategy[str]:
    """Draw any texts, half of them attacks."""
    return draw_attacks() | st.text(max_size=40)


def draw_json_values() -> SearchStrategy[object]:
    """Draw JSON values of every type, small trees among them."""
    numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from((0, 1, -1, 2**63, 0.5))
    leaves = st.none() | st.booleans() | numbers | draw_texts()
    return st.recursive(
        leaves,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(draw_texts(), inner, max_size=3),
        max_leaves=6,
    )


def draw_raw_json() -> SearchStrategy[str]:
    """Draw texts in place of JSON values. Some of them are not JSON."""
    return st.sampled_from(
        (
            "NaN",
            "Infinity",
            "-Infinity",
            "1e999",
            "-0.0",
            "9" * 400,
            "9" * 5000,
            "1e-99999",
            "[" * 450 + "]" * 450,
            "[" * 100_000 + "]" * 100_000,
            '{"a":' * 450 + "1" + "}" * 450,
            '{"a":1,"a":2}',
            '{"hex":"0x1p+99999"}',
            '"\\ud800"',
            '"\\u0000"',
            "nul",
            "[1,]",
            "",
            "{",
            '"',
        )
    )
