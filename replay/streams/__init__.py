"""Streams: what they are called, how their files are read, how they get into the log, and twins of those that are not at hand.

A stream is declared in one YAML file (`declaration.py`); the six of the papers are in `declared/`. Replaying a log that is
there is the business of the modules above this package, which know nothing of files or formats.
"""
