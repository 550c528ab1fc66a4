"""Explain answers that are not right: each cause has a model that predicts what it makes of a call.

`attribution` holds the answers of one entry point against the models; `findings` groups the cells by their causes. The
catalogue (`gradclip_spec/rules/causes.toml`) says what each cause means.
"""
