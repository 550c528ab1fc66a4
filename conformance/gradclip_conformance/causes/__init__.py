"""Explain wrong answers. Each cause has a model that predicts the wrong answer to a call.

`attribution` compares the answers of one entry point with the models; `findings` groups the cells by their causes. The
catalogue (`gradclip_spec/rules/causes.toml`) says what each cause means.
"""
