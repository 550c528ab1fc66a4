"""The cases of each theme of the rule book; `formula.py` holds those of `gradclip_spec/rules/formula.toml`."""
