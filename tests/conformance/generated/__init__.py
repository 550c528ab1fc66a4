"""Generate thousands of mutants: right functions with one *fault* each, which shows under some circumstances.

A mutant counts only if exact arithmetic proves it wrong on an input that satisfies the trigger of its fault.
"""
