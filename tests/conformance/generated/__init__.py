"""Right clippers in ten styles, and thousands of wrong ones that are made of them.

A wrong clipper is a right one with one *fault*: an *operator* that changes one step, and a *trigger* that says when.
It counts only if exact arithmetic proves it wrong on an input that its trigger draws.
"""
