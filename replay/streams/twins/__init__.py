"""Twins: for each of the six paper streams a seeded generator that writes the original's raw format, byte for byte repeatable.

One module per stream; `draws.py` has the random numbers, `formatting.py` the text, `parts.py` the files. A twin passes through
the same reader as the original, so nothing here may know how a stream is read.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from engines.spec import SpecError
from replay.streams.twins.debs2012 import Debs2012
from replay.streams.twins.debs2013 import Debs2013
from replay.streams.twins.dye import Dye
from replay.streams.twins.intel_lab import IntelLab
from replay.streams.twins.parts import Part, Twin, write
from replay.streams.twins.ss7 import Ss7
from replay.streams.twins.traffic import Traffic

__all__ = ["Part", "Twin", "twin", "twins", "write"]

_TWINS: dict[str, Callable[..., Twin]] = {
    "ss7": Ss7,
    "intel_lab": IntelLab,
    "debs2012": Debs2012,
    "debs2013": Debs2013,
    "traffic": Traffic,
    "dye": Dye,
}


def twins() -> list[str]:
    """The streams that have a twin.

    >>> twins()
    ['ss7', 'intel_lab', 'debs2012', 'debs2013', 'traffic', 'dye']
    """
    return list(_TWINS)


def twin(name: str, *, tuples: int, seed: int = 0, **options: Any) -> Twin:
    r"""The twin of a stream: `tuples` records in all, the same bytes for the same arguments.

    >>> made = twin("debs2012", tuples=2_500_000)
    >>> [part.name for part in made.parts]
    ['allData-0001.txt', 'allData-0002.txt', 'allData-0003.txt']
    >>> next(made.blocks(made.parts[0]))[:41]
    b'2012-02-22T16:46:28.9669998+00:00\t2556001'
    """
    if name not in _TWINS:
        raise SpecError(f"stream: {name!r} given; twins exist of {', '.join(_TWINS)}.")
    kind: Any = _TWINS[name]
    known = [field.name for field in fields(kind) if field.name not in ("tuples", "seed")]
    for option in options:
        if option not in known:
            raise SpecError(f"{option}: given as an option of the {name} twin; allowed are {', '.join(known) or 'none'}.")
    return kind(tuples=tuples, seed=seed, **options)
