"""General stream slicing: tuples are aggregated once, into slices that all windows of all queries share.

`spec.py` says what can be asked for, `windows.py` where windows begin and end, `engine.py` does it.

References:
    Traub et al., Efficient Window Aggregation with General Stream Slicing, EDBT 2019.
"""
