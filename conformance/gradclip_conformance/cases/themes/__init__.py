"""Hold the cases of each theme of the rule book. `formula.py` holds the cases of `gradclip_spec/rules/formula.toml`."""
