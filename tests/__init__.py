"""Tests: the same folders as the source, and what several of them share (references, strategies, comparing)."""
