"""Explain wrong answers. Each cause has a model that predicts the wrong answer to a call.

`attribution` names the causes of the cells of a run. `traits` holds what the cells of one entry point have in common,
`cells` explains one cell, `results` explains the results of one call, and `facts` holds what all models read. `laws`,
`ranges` and the modules beside them hold the models. `findings` groups the cells by their causes. The catalogue
(`gradclip_spec/rules/causes.toml`) says what each cause means.

Tolerances are two error bounds, `NORM_ERROR` and `SCALING_ERROR` in `facts`. "Measured" beside a number means: with its
half and its double, all 832 wrong cells of 39 wrong functions keep their causes. The functions are mutants, generated
ones among them, and functions that were written elsewhere.
"""
