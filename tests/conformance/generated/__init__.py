"""Generate right clippers in ten styles, and thousands of wrong clippers from them.

A wrong clipper is a right clipper with one *fault*: an *operator* that changes one step, and a *trigger* that says
when. It counts only if exact arithmetic proves it wrong on an input that satisfies its trigger.
"""
