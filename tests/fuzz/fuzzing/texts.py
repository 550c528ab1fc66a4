"""Draw texts that attack programs which execute or render them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

#: The file that a payload creates in the working directory when it is executed.
MARKER = "gradclip-fuzz-marker"
PAYLOAD = f"open('{MARKER}', 'w')"
#: The functions that payloads call, and that no code of ours calls where a payload may stand.
CALLED = frozenset(("open", "getcwd", "system"))

#: Text that ends the data around a payload, so that the payload becomes code.
ESCAPES = (
    *("{}", '""";{};"""', "''';{};'''", '";{};"', "';{};'", '\\""";{};"""', "\n{}\n", "\r{}\r", "{{{}}}", "${{{}}}"),
    *("0); {}; dict(y", "0) or ({}", "[foreach=None) and 0 or ({})]", "os;{}#:f", "os:getcwd;{}#", "$values"),
    *(f"__import__('os').system('touch {MARKER}')", "\\N{{BULLET}}\\x41\\"),
)
#: Characters with a meaning to a terminal, to XML or to Unicode.
CHARACTERS = (
    *("", " ", "\x00", "\x1b[31mred\x1b]0;title\x07", "\x1b[2J\x1b[H", "\x9b31m", "a\rb", "a\nb", "\u202eevil\u2066"),
    *("\u2028a\u2029b\x85c\x0bd\x0ce", "\ud800", "\udfff\ud800", "\ufffe\uffff", "\U00018cd6", "e\u0301" * 20),
    *("\U0001f468\u200d\U0001f469", "\u3000\u00a0\ufeff", "\u0663"),
)
#: Markup of Markdown, HTML, XML, templates and TOML.
MARKUP = (
    *("\n\n# heading\n\n", "\n\n<script>alert(1)</script>\n\n", "|a|b|", "`a``b```", "</code></summary></details>"),
    *("![x](http://x)[y](http://y)", "<!--", "]]>", "&amp;&lt;\"'", "[bold]x[/bold][/]", "%s%n{0.__class__}"),
    *('"\n\n[[known]]\nsubjects=["*"]\n', '# x\n[[known]]\nrules = ["*"]\n#'),
)
#: Names, patterns and numbers that mean something to the suite itself.
WORDS = (
    *("../../../x", "/etc/passwd", "~/x", "C:\\x", "a/b", "a/b/c", "x.py", "x:y", "x.y:z", "numpy", "torch"),
    *("-o", "--help", "@file", "*", "[!]", "nan", "inf", "0x1p+0", "0x1p+99999", "-0x0p+0", "1e999"),
    *("9" * 5000, "*" * 30 + "x"),
)
ATTACKS = (*(escape.format(PAYLOAD) for escape in ESCAPES), *CHARACTERS, *MARKUP, *WORDS)


def draw_attacks() -> SearchStrategy[str]:
    single = st.sampled_from(ATTACKS)
    return single | st.tuples(single, single).map("".join) | st.tuples(st.text(max_size=8), single).map("".join)


def draw_mostly(usual: SearchStrategy[Any], other: SearchStrategy[Any]) -> SearchStrategy[Any]:
    """Draw an odd value one time in ten, and else a usual one. A document of odd values alone is refused at once."""
    return st.integers(0, 9).flatmap(lambda drawn: other if drawn == 9 else usual)


def draw_texts() -> SearchStrategy[str]:
    return draw_attacks() | st.text(max_size=40)


def draw_json_values() -> SearchStrategy[Any]:
    numbers = st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from((0, 1, -1, 2**63, 0.5))
    return st.recursive(
        st.none() | st.booleans() | numbers | draw_texts(),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(draw_texts(), inner, max_size=3),
        max_leaves=6,
    )
