"""Tests of general slicing: the specification, the cuts in time, and windows in worked examples."""
