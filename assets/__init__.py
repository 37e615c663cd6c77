"""What exists: the assets of the lake, one module per stream, one per technique's results, and the experiments.

Add a module here when a new table is to be seen in the asset graph. An asset calls replay/ and quality/ and reports what they
say; it computes nothing itself. When things run (jobs, schedules, sensors, partitions) is decided in orchestration/.
"""
