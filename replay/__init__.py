"""How history becomes a stream: the log, its clock, and the ways an engine is run over it.

Here live the log and its files, disorder, the late rule, envelopes, buckets, the local runner, the Spark source and sink,
runs, publishing and backfills. Nothing here knows a technique: it sees the contract of engines/ and nothing else of it.
"""
