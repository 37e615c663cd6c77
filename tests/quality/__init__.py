"""Tests of quality: the oracles by worked examples and against the engines, and the comparison of both."""
