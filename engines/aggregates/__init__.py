"""Aggregates: what a person may ask for (`spec`), and how it is computed from partials (`layout`).

Shared by every technique that aggregates tuples. A new aggregate is a model in `spec.py` and a recipe in `recipes.py`;
nothing here may know a window, a slice or a frame. `spec.py` alone is shared with the oracles, so this file imports nothing.
"""
