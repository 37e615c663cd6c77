"""What the results must be: slow, obvious, plain Python, written from the definitions alone.

Nothing in here may import an engine or anything that an engine uses, except the text form of durations: a reference
that shares code with what it judges proves nothing. Streams are lists of mappings in order of arrival, times are whole
microseconds, results are plain rows. Speed is no goal.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Row = Mapping[str, Any]
"""A tuple or a result: its columns by name; times are microseconds."""
Spec = Mapping[str, Any]
"""A specification as a user writes it."""
