"""Tests of frames: the specification, the kernels, drawn examples, and any batches giving the same frames."""
