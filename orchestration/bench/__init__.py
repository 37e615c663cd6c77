"""Benchmarks: how fast replays are, beside other systems on the same machine, cores and files, in the same run.

One module per experiment, each with `ABOUT` and `run`; `runner.py` carries them out, `report.py` shows what came out. What an
experiment measures is a ratio with a target next to it. Whether results are right is checked first: a wrong one has no speed.
"""
