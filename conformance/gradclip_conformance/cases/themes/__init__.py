"""Hold the cases of each theme of the rules: `formula.py` has the cases of `gradclip_spec/rules/formula.toml`."""
