"""Generate right functions in five styles, and thousands of mutants from them.

A mutant is a right function with one *fault*: an *operator* that changes one step, and a *trigger* that says
when. It counts only if exact arithmetic proves it wrong on an input that satisfies its trigger.
"""
