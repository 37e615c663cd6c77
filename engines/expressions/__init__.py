"""Expressions: predicates and formulas that people write as text, parsed into a small tree of our own.

`tree` reads and writes the text, `kinds` finds what does not fit together, `evaluate` computes over Arrow batches. The
first two are shared with the oracles, so this file imports nothing. Nothing in here is ever `eval`ed or imported by name.
"""
