"""Frames: windows that the data draws, the episodes of a stream (Maier et al., DEBS 2012).

Threshold frames are the maximal runs of tuples that satisfy a predicate. A further kind of frame is a model in `spec.py`
and a way to cut tuples into pieces; the stitching of pieces, and when rows are due, are the same for all.
"""
