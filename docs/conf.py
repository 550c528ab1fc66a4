"""Configure Sphinx for the manual. `nox -s docs` builds it."""

from __future__ import annotations

import sys
from pathlib import Path

import gradclip_spec

sys.path.insert(0, str(Path(__file__).parent))

project = "gradclip-spec"
author = "The gradclip-spec developers"
version = release = gradclip_spec.__version__

extensions = ["myst_parser", "numpydoc", "sphinx.ext.autodoc", "manual.pages"]
exclude_patterns = ["_build"]

html_theme = "furo"
# The colours and the letters of the site of results, so that both look alike (gradclip_reports/site/static/site.css).
html_theme_options = {
    "light_css_variables": {
        "font-stack": 'system-ui, -apple-system, "Segoe UI", "Noto Sans", sans-serif',
        "color-foreground-primary": "#1f2328",
        "color-foreground-secondary": "#57606a",
        "color-brand-primary": "#0550ae",
        "color-brand-content": "#0550ae",
        "color-background-secondary": "#f5f6f8",
    },
    "dark_css_variables": {
        "color-foreground-primary": "#f0f6fc",
        "color-foreground-secondary": "#a3adb8",
        "color-brand-primary": "#79b8ff",
        "color-brand-content": "#79b8ff",
        "color-background-primary": "#0d1117",
        "color-background-secondary": "#151b23",
    },
}
html_title = f"gradclip-spec {release}"
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
html_static_path = ["_static"]
html_css_files = ["manual.css"]
# Formulas become MathML: a browser shows it without a script, and the manual works without a network.
html_math_renderer = "mathml"

myst_enable_extensions = ["dollarmath"]
# Give headings the anchors that GitHub gives them, so that links work there, too.
myst_heading_anchors = 4

# In the docstrings, single backticks hold code.
default_role = "code"
# Typographic quotes and dashes would turn the two hyphens of `--venv` into one dash.
smartquotes = False
autodoc_typehints = "none"
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True}
numpydoc_show_class_members = False
# A wrong reference to a name of this project is an error. References to names of Python and NumPy are not checked,
# because that needs a network.
nitpicky = True
nitpick_ignore_regex = [("py:.*", r"(?!gradclip_).*")]
