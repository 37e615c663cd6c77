"""What a twin is to those who write it: a sequence of raw files, each of which can be made alone.

Files are cut at fixed tuple counts, never by the number of tasks, so the same twin is the same bytes wherever it was made.
What is in the files is the business of the six modules beside this one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, overload

from engines.spec import SpecError

MOST_TUPLES = 10**10
"""Up to here every time of every twin is inside 64 bits, in picoseconds too."""
TUPLES_A_BLOCK = 32_768


@dataclass(frozen=True)
class Part:
    """One raw file of a twin."""

    name: str
    """As the original's files are called; where there are several, with a number that sorts by value."""
    first: int
    """The number of its first tuple."""
    tuples: int
    """How many records are written, exactly."""


class Twin(Protocol):
    """A stream that is made, not read."""

    @property
    def parts(self) -> Sequence[Part]:
        """The twin's files, in order; however many tuples it has, they cost nothing to list."""

    def blocks(self, part: Part) -> Iterator[bytes]:
        """A file's bytes, piece by piece, in constant memory; a header comes first where the format has one."""


@dataclass(frozen=True)
class Numbered(Sequence[Part]):
    """Files of the same number of tuples, the last one shorter, numbered from 1.

    >>> Numbered(tuples=2500, per_file=1000, name="allData-{:04d}.txt")[-1]
    Part(name='allData-0003.txt', first=2000, tuples=500)
    """

    tuples: int
    per_file: int
    name: str
    """The file's name, with a place for its number."""

    def __len__(self) -> int:
        """How many files there are."""
        return -(-self.tuples // self.per_file)

    def label(self, at: int) -> str:
        """The name of the file at this place."""
        return self.name.format(at + 1)

    @overload
    def __getitem__(self, index: int) -> Part: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Part]: ...
    def __getitem__(self, index: int | slice) -> Part | Sequence[Part]:
        """The file at this place, made up when it is asked for."""
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        at = range(len(self))[index]
        first = at * self.per_file
        return Part(self.label(at), first, min(self.per_file, self.tuples - first))


def write(twin: Twin, folder: Path, part: Part, advance: Callable[[int], None] | None = None) -> Path:
    """Write one file of a twin, whole or not at all, and tell `advance` how many bytes each piece had.

    >>> import tempfile
    >>> from replay.streams.twins import twin
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     made = twin("traffic", tuples=1000)
    ...     path = write(made, Path(folder), made.parts[0])
    ...     path.name, len(path.read_text().splitlines())
    ('traffic-0001.csv', 1001)
    """
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / part.name
    unfinished = folder / f"{part.name}.part"
    with unfinished.open("wb") as file:
        for block in twin.blocks(part):
            file.write(block)
            if advance is not None:
                advance(len(block))
    return unfinished.replace(path)


def pieces(first: int, tuples: int, size: int = TUPLES_A_BLOCK) -> Iterator[tuple[int, int]]:
    """A range of tuples as first number and count of each piece.

    >>> list(pieces(10, 5, size=2))
    [(10, 2), (12, 2), (14, 1)]
    """
    for start in range(first, first + tuples, size):
        yield start, min(size, first + tuples - start)


@dataclass(frozen=True)
class Groups:
    """Tuples shared out evenly among keys, as files grouped by key have them: all of the first key, then all of the next.

    >>> list(Groups(tuples=10, keys=3).within(2, 6))
    [(0, 2, 2), (1, 0, 3), (2, 0, 1)]
    """

    tuples: int
    keys: int

    def rows(self, key: int) -> int:
        """How many tuples a key has."""
        return self.tuples // self.keys + (1 if key < self.tuples % self.keys else 0)

    def within(self, first: int, count: int) -> Iterator[tuple[int, int, int]]:
        """A range of tuples as key, the key's first row and the number of its rows."""
        each, longer = divmod(self.tuples, self.keys)
        while count > 0:
            key = first // (each + 1) if first < longer * (each + 1) else (first - longer) // each
            row = first - key * each - min(key, longer)
            taken = min(count, self.rows(key) - row)
            yield key, row, taken
            first, count = first + taken, count - taken


def check_whole(setting: str, given: object, least: int, most: int) -> None:
    """Refuse a setting that is not a whole number between two others.

    >>> check_whole("fields", 1, 2, 119)
    Traceback (most recent call last):
    engines.spec.SpecError: fields: 1 given; allowed is a whole number from 2 to 119.
    """
    if isinstance(given, bool) or not isinstance(given, int) or not least <= given <= most:
        raise SpecError(f"{setting}: {given!r} given; allowed is a whole number from {least} to {most}.")


def check_twin(tuples: object, seed: object) -> None:
    """Refuse a size or a seed that no twin can have."""
    check_whole("tuples", tuples, 1, MOST_TUPLES)
    check_whole("seed", seed, 0, 2**62)
