"""Suites: what is expected of results, technique by technique, and of raw streams.

A technique's own invariants are in the file with its name, found by that name: a further technique adds one. What every technique's
results are held to is in `results.py`, raw streams in `streams.py`.
"""

from __future__ import annotations
